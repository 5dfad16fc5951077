//! x86_64: descriptor tables, traps, interrupt controllers, clocks.
//!
//! "SDM" in this module is Intel's *Software Developer's Manual*, volume 3, by section.

pub(crate) mod apic;
mod c_functions;
pub(crate) mod cpu;
pub(crate) mod exception;
pub(crate) mod gdt;
pub(crate) mod idt;
pub(crate) mod interrupts;
pub(crate) mod ioapic;
mod machine_check;
mod page_fault;
pub(crate) mod preempt;
mod reference_clock;
pub(crate) mod timer;
pub(crate) mod trap;
