//! Devices.

#[expect(unsafe_code, reason = "names the serial port's registers")]
pub mod console;
#[expect(unsafe_code, reason = "writes to ports of QEMU")]
pub(crate) mod debug_exit;
pub mod disk;
mod disk_access;
mod disk_cursor;
mod disk_error;
pub mod net;
#[expect(unsafe_code, reason = "reads and writes registers of devices")]
pub(crate) mod pci;
pub mod pit;
pub(crate) mod random;
#[expect(unsafe_code, reason = "takes its lock from a CPU that has stopped")]
pub(crate) mod screen;
mod self_interrupt;
#[expect(unsafe_code, reason = "uses the memory of devices")]
pub(crate) mod shared_memory;
#[expect(unsafe_code, reason = "shares memory with devices")]
pub(crate) mod virtio;
