//! x86_64: control registers, segments and interrupt stacks, the data of a trap, interrupt controllers, clocks, and
//! functions that compiled code calls.
//!
//! "SDM" with a number means a section of Intel's *Software Developer's Manual*, volume 3.

pub(crate) mod apic;
mod c_functions;
pub(crate) mod cpu;
pub(crate) mod cpuid;
pub(crate) mod gdt;
pub(crate) mod interrupts;
pub(crate) mod ioapic;
pub(crate) mod pit;
mod reference_clock;
pub(crate) mod timer;
pub(crate) mod trap;
