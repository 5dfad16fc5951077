//! The hardware: the processor, its interrupt controllers and clocks, and the firmware's description of the computer.

#[expect(unsafe_code, reason = "reads firmware tables from physical memory")]
pub(crate) mod acpi;
#[expect(unsafe_code, reason = "the processor's own interface")]
pub(crate) mod x86_64;
