//! x86_64: descriptor tables, traps, interrupt controllers, clocks, start of the other CPUs.
//!
//! "SDM" in this module is Intel's *Software Developer's Manual*, volume 3, by section.

pub(crate) mod ap_start;
pub mod apic;
pub mod cpu;
pub(crate) mod exception;
pub(crate) mod gdt;
pub(crate) mod idt;
pub mod interrupts;
pub mod ioapic;
mod machine_check;
mod page_fault;
pub mod preempt;
mod reference_clock;
pub mod timer;
pub mod trap;
