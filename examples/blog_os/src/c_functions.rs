//! Functions that compiled code calls, and that a C library usually defines. The compiler may replace an ordinary loop
//! over bytes by a call of one of these functions. In `memcpy` itself, a call of `memcpy` would recurse for ever. So
//! the functions use string instructions or volatile reads.

use core::arch::asm;
use core::ffi::c_int;

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: as in C, both areas have `count` bytes. They may overlap only if `memmove` is the caller.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack))
    };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= count {
        // SAFETY: `to` is not inside of the source, so copying forwards overwrites no byte before it is read.
        return unsafe { memcpy(to, from, count) };
    }
    let (last_to, last_from) = (to.wrapping_add(count).wrapping_sub(1), from.wrapping_add(count).wrapping_sub(1));
    // SAFETY: as in C, both areas have `count` bytes. Copying backwards overwrites no byte before it is read.
    unsafe {
        asm!("std", "rep movsb", "cld",
            inout("rcx") count => _, inout("rdi") last_to => _, inout("rsi") last_from => _, options(nostack));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: c_int, count: usize) -> *mut u8 {
    // SAFETY: as in C, the area has `count` bytes.
    unsafe { asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") byte as u8, options(nostack)) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> c_int {
    for index in 0..count {
        // SAFETY: as in C, both areas have `count` bytes.
        let (left, right) = unsafe { (left.add(index).read_volatile(), right.add(index).read_volatile()) };
        if left != right {
            return c_int::from(left) - c_int::from(right);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, count: usize) -> c_int {
    // SAFETY: `memcmp` has the same contract.
    unsafe { memcmp(left, right, count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: as in C, the text ends with a zero byte.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}

/// The unwind tables of the prebuilt `core` refer to this function. It is never called, because nothing unwinds in this
/// kernel.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    unreachable!("nothing unwinds")
}
