//! Functions that compiled code calls and that a C library usually defines: memory functions, `strlen`, and the
//! functions that unwinding needs.
//!
//! Bytes are moved eight at a time with `rep movsq`, and the rest one at a time. `rep movsb` alone is fast on real
//! processors, but under QEMU's TCG it is 11 times slower than this method. Long areas that are copied from the first
//! byte to the last, such as the data of disk requests, are copied in blocks of 256 bytes without `rep`, which is 1.3
//! times as fast under TCG. If the compiler recognises that a loop does the same as one of these functions, it replaces
//! the loop by a call of that function. So these functions must not contain such a loop, because they would then call
//! themselves for ever.

use core::arch::asm;
use core::ffi::{c_char, c_int};

/// C `memcpy`: copies `count` bytes between areas that do not overlap.
///
/// # Safety
/// The caller must meet the requirements of the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(destination: *mut u8, source: *const u8, count: usize) -> *mut u8 {
    let blocks = if count >= LONG { count / BLOCK } else { 0 };
    // SAFETY: the caller promises that both areas have `count` bytes.
    let (destination_rest, source_rest) = unsafe { copy_blocks(destination, source, blocks) };
    let rest = count - blocks * BLOCK;
    // SAFETY: the caller promises that both areas have `count` bytes. The last `rest` of these bytes have not been
    // copied yet. `rep movsq` copies the whole words among them, and `rep movsb` copies the bytes after the last whole
    // word. By the ABI the direction flag is clear.
    unsafe {
        asm!(
            "rep movsq",
            "mov ecx, edx",
            "rep movsb",
            inout("rcx") rest / 8 => _,
            in("edx") rest % 8,
            inout("rdi") destination_rest => _,
            inout("rsi") source_rest => _,
            options(nostack, preserves_flags)
        );
    }
    destination
}

/// If at least this many bytes are to be copied, they are copied in blocks.
const LONG: usize = 4096;
/// The size of a block in bytes.
const BLOCK: usize = 256;

/// Copies `blocks` blocks from the first byte to the last. Returns the ends of both areas.
///
/// # Safety
/// Both areas must have `blocks` blocks. The destination must not begin inside the source.
#[inline]
unsafe fn copy_blocks(destination: *mut u8, source: *const u8, blocks: usize) -> (*mut u8, *const u8) {
    let (mut destination, mut source) = (destination, source);
    if blocks > 0 {
        // SAFETY: the caller promises that both areas have `blocks` blocks.
        unsafe {
            asm!(
                "2:",
                ".set .Lat, 0",
                ".rept {WORDS}",
                "mov {word}, [{source} + .Lat]",
                "mov [{destination} + .Lat], {word}",
                ".set .Lat, .Lat + 8",
                ".endr",
                "add {source}, {BLOCK}",
                "add {destination}, {BLOCK}",
                "dec {blocks}",
                "jnz 2b",
                word = out(reg) _,
                source = inout(reg) source,
                destination = inout(reg) destination,
                blocks = inout(reg) blocks => _,
                WORDS = const BLOCK / 8,
                BLOCK = const BLOCK,
                options(nostack)
            );
        }
    }
    (destination, source)
}

/// C `memmove`: copies `count` bytes between areas that may overlap.
///
/// # Safety
/// The caller must meet the requirements of the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(destination: *mut u8, source: *const u8, count: usize) -> *mut u8 {
    // If the destination does not begin inside the source, copying forwards is correct.
    if destination.addr().wrapping_sub(source.addr()) >= count {
        // SAFETY: the caller promises that both areas have `count` bytes. A copy from the first byte to the last reads
        // each byte before it overwrites that byte.
        return unsafe { memcpy(destination, source, count) };
    }
    // SAFETY: the caller promises that both areas have `count` bytes. A copy from the last byte to the first reads each
    // byte before it overwrites that byte. The last `count % 8` bytes are copied first, one at a time. Then RDI and RSI
    // point to the last byte of the last whole word, and subtracting 7 makes them point to its first byte. `cld` clears
    // the direction flag again, as the ABI requires.
    unsafe {
        asm!(
            "std",
            "rep movsb",
            "sub rdi, 7",
            "sub rsi, 7",
            "mov rcx, rdx",
            "rep movsq",
            "cld",
            inout("rcx") count % 8 => _,
            in("rdx") count / 8,
            inout("rdi") destination.wrapping_add(count).wrapping_sub(1) => _,
            inout("rsi") source.wrapping_add(count).wrapping_sub(1) => _,
            options(nostack)
        );
    }
    destination
}

/// C `memset`: sets `count` bytes to the low byte of `value`.
///
/// # Safety
/// The caller must meet the requirements of the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(destination: *mut u8, value: c_int, count: usize) -> *mut u8 {
    let word = u64::from(value.to_le_bytes()[0]) * 0x0101_0101_0101_0101;
    // SAFETY: the caller promises that `destination` has `count` bytes. By the ABI the direction flag is clear.
    unsafe {
        asm!(
            "rep stosq",
            "mov ecx, edx",
            "rep stosb",
            inout("rcx") count / 8 => _,
            in("edx") count % 8,
            inout("rdi") destination => _,
            in("rax") word,
            options(nostack, preserves_flags)
        );
    }
    destination
}

/// C `memcmp`: compares `count` bytes. Returns zero if both areas are equal. Otherwise the first position at which they
/// differ decides: the result is negative if the byte in `left` is smaller, and positive if it is larger.
///
/// # Safety
/// The caller must meet the requirements of the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> c_int {
    let mut at = 0;
    // Compare words first. Words that differ are compared as big-endian numbers, so the first byte that differs
    // decides.
    while at + 8 <= count {
        // SAFETY: `at + 8 <= count`, and the caller promises `count` readable bytes.
        let left_word = unsafe { left.wrapping_add(at).cast::<u64>().read_unaligned() };
        // SAFETY: `at + 8 <= count`, and the caller promises `count` readable bytes.
        let right_word = unsafe { right.wrapping_add(at).cast::<u64>().read_unaligned() };
        if left_word != right_word {
            return if left_word.swap_bytes() < right_word.swap_bytes() { -1 } else { 1 };
        }
        at += 8;
    }
    while at < count {
        // SAFETY: `at < count`, and the caller promises `count` readable bytes.
        let left_byte = unsafe { left.wrapping_add(at).read() };
        // SAFETY: `at < count`, and the caller promises `count` readable bytes.
        let right_byte = unsafe { right.wrapping_add(at).read() };
        if left_byte != right_byte {
            return c_int::from(left_byte) - c_int::from(right_byte);
        }
        at += 1;
    }
    0
}

/// BSD's `bcmp`: returns zero if the first `count` bytes of both areas are equal, and another value if they differ.
///
/// # Safety
/// The caller must meet the requirements of `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, count: usize) -> c_int {
    // SAFETY: the caller promises what `memcmp` requires.
    unsafe { memcmp(left, right, count) }
}

/// C `strlen`: returns the number of bytes before the first zero byte.
///
/// # Safety
/// The caller must meet the requirements of the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const c_char) -> usize {
    let remaining: usize;
    // SAFETY: the caller promises that all bytes up to a zero byte are readable. RCX begins at the maximum. `repne
    // scasb` decrements it once for each byte up to and including the zero.
    unsafe {
        asm!(
            "repne scasb",
            inout("rcx") usize::MAX => remaining,
            inout("rdi") text => _,
            in("al") 0_u8,
            options(nostack, readonly)
        );
    }
    !remaining - 1
}

/// The prebuilt `core` refers to this function for unwinding. It is never called, because a panic aborts.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() -> ! {
    panic!("unwinding, although panics abort")
}

/// The prebuilt `core` refers to this function for unwinding. It is never called, because a panic aborts.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    panic!("unwinding, although panics abort")
}
