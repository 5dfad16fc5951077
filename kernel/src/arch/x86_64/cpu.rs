//! Control registers and features of the processor.

use core::arch::x86_64::{__cpuid, __cpuid_count};

use x86_64::instructions::{hlt, interrupts};
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};

/// Puts the control registers of this CPU into the state that the kernel wants, whatever its boot path left.
///
/// SSE with its exceptions, write protection also for ring 0, no-execute pages. OSXSAVE stays off: AVX instructions are
/// invalid, so that FXSAVE saves all state there is.
pub(crate) fn init() {
    let clear =
        Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED | Cr0Flags::CACHE_DISABLE | Cr0Flags::NOT_WRITE_THROUGH;
    let set = Cr0Flags::MONITOR_COPROCESSOR | Cr0Flags::NUMERIC_ERROR | Cr0Flags::WRITE_PROTECT;
    // SAFETY: paging and protection stay on; the kernel writes to nothing that is mapped read-only.
    unsafe { Cr0::update(|flags| *flags = (*flags - clear) | set) };
    // SAFETY: nothing relies on the absence of SSE; state saved with FXSAVE is all there is without OSXSAVE.
    unsafe {
        Cr4::update(|flags| *flags = (*flags - Cr4Flags::OSXSAVE) | Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE);
    }
    // SAFETY: every x86_64 processor has no-execute pages.
    unsafe { Efer::update(|flags| flags.insert(EferFlags::NO_EXECUTE_ENABLE)) };
}

/// Stops this CPU for good.
pub fn halt() -> ! {
    interrupts::disable();
    loop {
        // Left by NMIs and the like.
        hlt();
    }
}

/// The id of the APIC of this CPU, as the processor itself knows it.
pub fn apic_id() -> u32 {
    // Leaf 0xb has all 32 bits where it exists (SDM volume 2, CPUID).
    if __cpuid(0).eax >= 0xb {
        let topology = __cpuid_count(0xb, 0);
        if topology.ebx != 0 {
            return topology.edx;
        }
    }
    __cpuid(1).ebx >> 24
}
