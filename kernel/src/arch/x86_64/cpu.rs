//! The control registers and the floating-point state of the processor, and the instruction that halts a CPU.

use core::arch::{asm, naked_asm};

use x86_64::instructions::{hlt, interrupts};
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};

use super::trap::TrapFrame;

/// The bits that the kernel sets in CR4: they turn on SSE, its exceptions, and machine checks, which are errors that the
/// hardware detects in itself. A machine check stops the kernel with a report; without the bit, the processor would
/// reset. The firmware has chosen which errors are reported.
///
/// OSXSAVE is off. So AVX instructions are invalid, and FXSAVE saves all floating-point and vector registers that code
/// can use. PGE and PCIDE are off, so a load of CR3 flushes the whole TLB. Turning PGE off also flushes the firmware's
/// global translations.
const CR4: Cr4Flags = Cr4Flags::OSFXSR.union(Cr4Flags::OSXMMEXCPT_ENABLE).union(Cr4Flags::MACHINE_CHECK_EXCEPTION);
/// The bits of CR4 that cannot be changed while paging is on.
const CR4_KEPT: Cr4Flags = Cr4Flags::PHYSICAL_ADDRESS_EXTENSION.union(Cr4Flags::L5_PAGING);

/// The value of MXCSR that the ABI requires when a function is called: all exceptions masked, rounding to nearest.
pub(crate) const DEFAULT_MXCSR: u32 = 0x1f80;

/// Sets the control registers, x87 and MXCSR of this CPU as the kernel needs them. The values that the
/// firmware and the boot path have set do not matter. Afterwards write protection also applies to ring 0, and pages can
/// be no-execute. The interrupt descriptor table must have been loaded before.
pub(crate) fn init() {
    let clear =
        Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED | Cr0Flags::CACHE_DISABLE | Cr0Flags::NOT_WRITE_THROUGH;
    let set = Cr0Flags::MONITOR_COPROCESSOR | Cr0Flags::NUMERIC_ERROR | Cr0Flags::WRITE_PROTECT;
    // SAFETY: paging and protection stay on, and no kernel code writes to a page that is mapped read-only.
    unsafe { Cr0::update(|flags| *flags = (*flags - clear) | set) };
    // SAFETY: paging stays as it is, and no code relies on the bits that are cleared. The boot path has turned SSE on,
    // and SSE stays on.
    unsafe { Cr4::update(|flags| *flags = *flags & CR4_KEPT | CR4) };
    // SAFETY: every x86_64 processor has no-execute pages.
    unsafe { Efer::update(|flags| flags.insert(EferFlags::NO_EXECUTE_ENABLE)) };
    reset_floating_point();
}

/// Empties the x87 stack, and sets x87 and MXCSR to the defaults of the ABI. After a reset the control word of x87 has
/// another value (SDM 3A, table 10-1).
fn reset_floating_point() {
    // SAFETY: compiled Rust code does not use the x87 registers.
    unsafe { asm!("fninit", options(nomem, nostack, preserves_flags)) };
    // SAFETY: `DEFAULT_MXCSR` is the value of MXCSR that compiled Rust code requires.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &DEFAULT_MXCSR, options(nostack, preserves_flags, readonly)) };
}

/// Turns interrupts on, halts until an interrupt has been handled, and turns interrupts off. Called with interrupts
/// off.
///
/// No interrupt is lost, because after `sti` the processor takes no interrupt before the next instruction, `hlt`, has
/// begun. So an interrupt that is already pending ends the halt.
///
/// But a non-maskable interrupt may come between `sti` and `hlt`. If its handler returned to `hlt`, pending interrupts
/// would be handled before `hlt`, and then no interrupt would end the halt. So the handler returns to the instruction
/// after `hlt`: see [`skip_halt`]. Hence this function may also return without having handled an interrupt.
#[unsafe(naked)]
pub(crate) extern "sysv64" fn wait_for_interrupt() {
    naked_asm!("sti", "hlt", "cli", "ret")
}

/// Returns the address of `hlt` in [`wait_for_interrupt`].
pub(crate) fn halt_address() -> u64 {
    // The function begins with `sti`, which has one byte, and `hlt` follows.
    wait_for_interrupt as *const () as u64 + 1
}

/// If the interrupt came just before `hlt` in [`wait_for_interrupt`], makes the interrupted code continue after `hlt`.
/// Called at the end of the handler of a non-maskable interrupt, because no other kind of interrupt can come at that
/// point.
pub(crate) fn skip_halt(frame: &mut TrapFrame) {
    if frame.rip == halt_address() {
        // The instruction `hlt` has one byte.
        frame.rip += 1;
    }
}

/// Stops this CPU for ever.
pub(crate) fn halt() -> ! {
    interrupts::disable();
    loop {
        // This is a loop because a non-maskable interrupt ends `hlt`.
        hlt();
    }
}
