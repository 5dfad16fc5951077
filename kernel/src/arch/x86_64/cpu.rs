//! Control registers and features of the processor.

use core::arch::{asm, naked_asm};

use x86_64::instructions::{hlt, interrupts};
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};

use super::machine_check;
use super::trap::TrapFrame;

/// What the kernel wants in CR4: SSE with its exceptions, machine checks.
///
/// OSXSAVE is off: AVX instructions are invalid, so that FXSAVE saves all state there is. PGE and PCIDE are off, so a load of
/// CR3 flushes all translations; what firmware has mapped as global is forgotten when PGE goes off.
const CR4: Cr4Flags = Cr4Flags::OSFXSR.union(Cr4Flags::OSXMMEXCPT_ENABLE).union(Cr4Flags::MACHINE_CHECK_EXCEPTION);
/// What cannot change while there is paging.
const CR4_KEPT: Cr4Flags = Cr4Flags::PHYSICAL_ADDRESS_EXTENSION.union(Cr4Flags::L5_PAGING);

/// MXCSR with all exceptions masked and rounding to nearest, which functions expect at their entry.
pub(crate) const DEFAULT_MXCSR: u32 = 0x1f80;

/// Puts this CPU into the state that the kernel wants, whatever its firmware and boot path left: control registers, x87,
/// MXCSR, machine checks. Write protection holds also for ring 0, and there are no-execute pages. The interrupt descriptor
/// table is loaded.
pub(crate) fn init() {
    let clear =
        Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED | Cr0Flags::CACHE_DISABLE | Cr0Flags::NOT_WRITE_THROUGH;
    let set = Cr0Flags::MONITOR_COPROCESSOR | Cr0Flags::NUMERIC_ERROR | Cr0Flags::WRITE_PROTECT;
    // SAFETY: paging and protection stay on; the kernel writes to nothing that is mapped read-only.
    unsafe { Cr0::update(|flags| *flags = (*flags - clear) | set) };
    machine_check::init();
    // SAFETY: paging stays as it is, and nothing relies on what goes off. SSE stays on: the entry has turned it on.
    unsafe { Cr4::update(|flags| *flags = *flags & CR4_KEPT | CR4) };
    // SAFETY: every x86_64 processor has no-execute pages.
    unsafe { Efer::update(|flags| flags.insert(EferFlags::NO_EXECUTE_ENABLE)) };
    reset_floating_point();
}

/// Empties the x87 stack and loads the default control words. After a reset the one of x87 is another one (SDM 3A,
/// table 10-1).
fn reset_floating_point() {
    // SAFETY: no Rust code keeps anything in x87 registers.
    unsafe { asm!("fninit", options(nomem, nostack, preserves_flags)) };
    // SAFETY: the value that Rust code expects.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &DEFAULT_MXCSR, options(nostack, preserves_flags, readonly)) };
}

/// Turns interrupts on, halts until one was handled, and turns them off. Called with interrupts off.
///
/// An interrupt that was pending, or comes meanwhile, is not slept through: `sti` lets none in before the next instruction
/// has begun, so it ends the halt. A non-maskable interrupt has no such rule. It also comes between the two instructions,
/// and when its handler returned there, pending interrupts would be handled before the halt, which nothing would end then.
/// So it does not return there, but behind the halt: see [`skip_halt`]. Hence this may also return without an interrupt.
#[unsafe(naked)]
pub(crate) extern "sysv64" fn wait_for_interrupt() {
    naked_asm!("sti", "hlt", "cli", "ret")
}

/// The address of the halt in [`wait_for_interrupt`].
pub(crate) fn halt_address() -> u64 {
    // `sti` has one byte.
    wait_for_interrupt as *const () as u64 + 1
}

/// Has code that was interrupted just before the halt in [`wait_for_interrupt`] go on just behind it. Called at the end of
/// every interrupt that can come there, which is a non-maskable one.
pub(crate) fn skip_halt(frame: &mut TrapFrame) {
    if frame.rip == halt_address() {
        // `hlt` has one byte.
        frame.rip += 1;
    }
}

/// Stops this CPU for good.
pub(crate) fn halt() -> ! {
    interrupts::disable();
    loop {
        // Left by NMIs and the like.
        hlt();
    }
}
