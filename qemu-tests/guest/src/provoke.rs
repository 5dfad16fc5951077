//! Functions that raise exceptions, for tests of the kernel's reports.

#![expect(unsafe_code, reason = "does what safe Rust prevents")]

use core::arch::asm;
use core::sync::atomic::AtomicU64;

/// Divides by zero.
pub(crate) fn divide_error() {
    // SAFETY: the exception is intended. It ends the machine; with `panic=isolate`, it ends only the calling G.
    unsafe { asm!("xor edx, edx", "mov eax, 1", "xor ecx, ecx", "div ecx", out("eax") _, out("ecx") _, out("edx") _) };
}

/// Reads through a null pointer.
pub(crate) fn null_read() {
    // SAFETY: the exception is intended. It ends the machine; with `panic=isolate`, it ends only the calling G. The
    // read is in assembly, because the compiler may assume that a pointer is not null.
    unsafe { asm!("mov {0}, [{0} + 8]", inout(reg) 0u64 => _) };
}

/// Writes to the machine code of a function.
pub(crate) fn write_to_code() {
    let code = write_to_code as fn() as usize;
    // SAFETY: the exception is intended, and ends the machine.
    unsafe { asm!("mov byte ptr [{}], 0x90", in(reg) code) };
}

/// Writes to a constant.
pub(crate) fn write_to_constant() {
    static CONSTANT: u64 = 7;
    // SAFETY: the exception is intended, and ends the machine.
    unsafe { asm!("mov qword ptr [{}], 8", in(reg) &raw const CONSTANT) };
}

/// Executes an undefined instruction.
pub(crate) fn invalid_opcode() {
    // SAFETY: the exception is intended. It ends the machine; with `panic=isolate`, it ends only the calling G.
    unsafe { asm!("ud2") };
}

/// Executes the instruction that debuggers put into code.
pub(crate) fn breakpoint() {
    // SAFETY: the exception is intended, and ends the machine.
    unsafe { asm!("int3") };
}

/// Loads a segment register with a selector that is beyond the descriptor table.
pub(crate) fn bad_selector() {
    // SAFETY: the exception is intended, and ends the machine.
    unsafe { asm!("mov ds, {:x}", in(reg) 0x1230_u16) };
}

/// Reads at a non-canonical address.
pub(crate) fn bad_address() {
    // SAFETY: the exception is intended. It ends the machine; with `panic=isolate`, it ends only the calling G.
    unsafe { asm!("mov {0}, [{0}]", inout(reg) 0x8000_0000_0000_0000_u64 => _) };
}

/// Divides by zero in the x87, with this exception unmasked. (TCG raises no such exception for SSE.)
pub(crate) fn float_divide_error() {
    let unmasked: u16 = 0x037f & !(1 << 2);
    // SAFETY: the exception is intended, and ends the machine.
    unsafe { asm!("fninit", "fldcw [{}]", "fld1", "fldz", "fdivp", "fwait", in(reg) &raw const unmasked) };
}

/// Shortens the interrupt descriptor table so that it ends before the gate of page faults, and raises a page fault. The
/// page fault cannot be delivered, so it becomes a double fault.
pub(crate) fn double_fault() {
    let mut table = [0u8; 10];
    // SAFETY: this instruction stores ten bytes, which is the size of `table`.
    unsafe { asm!("sidt [{}]", in(reg) &raw mut table) };
    table[..2].copy_from_slice(&(14 * 16 - 1_u16).to_le_bytes());
    // SAFETY: the exception is intended, and ends the machine.
    unsafe { asm!("lidt [{}]", "mov {1}, [{1} + 8]", in(reg) &raw const table, inout(reg) 0u64 => _) };
}

/// Recurses until the stack of the calling G overflows.
pub(crate) fn stack_overflow() {
    fn deeper(depth: u64) -> u64 {
        let mut frame = [depth; 64];
        // The frame must exist and be in use after the call, so that the compiler does not turn the recursion into a
        // loop.
        core::hint::black_box(&mut frame);
        if depth == u64::MAX { 0 } else { deeper(depth + 1) + frame[0] }
    }
    core::hint::black_box(deeper(0));
}

/// Calls a function whose frame is larger than the stack of the calling G.
#[inline(never)]
pub(crate) fn huge_frame() {
    #[inline(never)]
    fn with_large_array(n: u8) {
        core::hint::black_box(&[n; 1 << 20]);
    }
    with_large_array(core::hint::black_box(7));
    core::hint::black_box(());
}

/// Loads an empty interrupt descriptor table and raises an exception. The exception cannot be delivered, so the machine
/// resets itself.
pub(crate) fn triple_fault() {
    #[repr(C, packed)]
    struct NoDescriptors {
        limit: u16,
        base: u64,
    }
    let none = NoDescriptors { limit: 0, base: 0 };
    // SAFETY: the reset is intended.
    unsafe { asm!("lidt [{}]", "ud2", in(reg) &raw const none) };
}

/// Calls bytes in a page that is not executable.
pub(crate) fn execute_data() {
    static DATA: AtomicU64 = AtomicU64::new(u64::from_le_bytes([0xc3; 8]));
    // SAFETY: the exception is intended, and ends the machine.
    unsafe { asm!("call {}", in(reg) DATA.as_ptr(), clobber_abi("C")) };
}
