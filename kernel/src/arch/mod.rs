//! The hardware below the devices: the processor, and what the firmware says of the machine.

#[expect(unsafe_code, reason = "reads firmware tables from physical memory")]
pub(crate) mod acpi;
#[expect(unsafe_code, reason = "the processor's own interface")]
pub(crate) mod x86_64;
