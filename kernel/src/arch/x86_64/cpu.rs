//! Control registers of the processor, and the halt of an idle CPU.

use core::arch::{asm, naked_asm};

use x86_64::instructions::{hlt, interrupts};
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};

use super::machine_check;
use super::trap::TrapFrame;

/// The bits that the kernel sets in CR4: SSE with its exceptions, machine checks.
///
/// OSXSAVE is off: AVX instructions are invalid, so FXSAVE saves all the state of the processor. PGE and PCIDE are off, so a
/// load of CR3 flushes all translations, and turning PGE off flushes the global ones of the firmware.
const CR4: Cr4Flags = Cr4Flags::OSFXSR.union(Cr4Flags::OSXMMEXCPT_ENABLE).union(Cr4Flags::MACHINE_CHECK_EXCEPTION);
/// The bits that cannot be changed while paging is on.
const CR4_KEPT: Cr4Flags = Cr4Flags::PHYSICAL_ADDRESS_EXTENSION.union(Cr4Flags::L5_PAGING);

/// MXCSR with all exceptions masked and rounding to nearest, which functions expect at their entry.
pub(crate) const DEFAULT_MXCSR: u32 = 0x1f80;

/// Puts this CPU into the state that the kernel needs, whatever the firmware and the boot path have set: control registers,
/// x87, MXCSR, machine checks. Write protection also applies to ring 0, and pages can be no-execute. The interrupt descriptor
/// table must be loaded.
pub(crate) fn init() {
    let clear =
        Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED | Cr0Flags::CACHE_DISABLE | Cr0Flags::NOT_WRITE_THROUGH;
    let set = Cr0Flags::MONITOR_COPROCESSOR | Cr0Flags::NUMERIC_ERROR | Cr0Flags::WRITE_PROTECT;
    // SAFETY: paging and protection stay on; the kernel writes to nothing that is mapped read-only.
    unsafe { Cr0::update(|flags| *flags = (*flags - clear) | set) };
    machine_check::init();
    // SAFETY: paging stays as it is, and nothing relies on the bits that are cleared. SSE stays on: the entry has turned it on.
    unsafe { Cr4::update(|flags| *flags = *flags & CR4_KEPT | CR4) };
    // SAFETY: every x86_64 processor has no-execute pages.
    unsafe { Efer::update(|flags| flags.insert(EferFlags::NO_EXECUTE_ENABLE)) };
    reset_floating_point();
}

/// Empties the x87 stack and loads the default control words. The control word that x87 has after a reset is not the default
/// (SDM 3A, table 10-1).
fn reset_floating_point() {
    // SAFETY: no Rust code keeps anything in x87 registers.
    unsafe { asm!("fninit", options(nomem, nostack, preserves_flags)) };
    // SAFETY: the value that Rust code expects.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &DEFAULT_MXCSR, options(nostack, preserves_flags, readonly)) };
}

/// Turns interrupts on, halts until one was handled, and turns them off. Called with interrupts off.
///
/// No interrupt is lost: after `sti` the processor takes an interrupt only when the next instruction, the halt, has begun, so
/// an interrupt that is already pending ends the halt. A non-maskable interrupt is not held back by `sti`: it may come between
/// the two instructions. If its handler returned to the halt, pending interrupts would be handled before it, and nothing would
/// end the halt. So the handler returns to the instruction after the halt: see [`skip_halt`]. Hence this function may also
/// return without an interrupt.
#[unsafe(naked)]
pub(crate) extern "sysv64" fn wait_for_interrupt() {
    naked_asm!("sti", "hlt", "cli", "ret")
}

/// The address of the halt in [`wait_for_interrupt`].
pub(crate) fn halt_address() -> u64 {
    // `sti` has one byte.
    wait_for_interrupt as *const () as u64 + 1
}

/// If the interrupted code was just before the halt in [`wait_for_interrupt`], makes it continue after the halt. Called at the
/// end of a non-maskable interrupt, the only kind that can come there.
pub(crate) fn skip_halt(frame: &mut TrapFrame) {
    if frame.rip == halt_address() {
        // `hlt` has one byte.
        frame.rip += 1;
    }
}

/// Stops this CPU for ever.
pub(crate) fn halt() -> ! {
    interrupts::disable();
    loop {
        // A non-maskable interrupt ends the halt.
        hlt();
    }
}
