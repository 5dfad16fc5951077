//! Devices.

#[expect(unsafe_code, reason = "names the serial port's registers")]
pub mod console;
#[expect(unsafe_code, reason = "writes to the port that ends QEMU")]
pub(crate) mod debug_exit;
pub mod disk;
mod disk_error;
#[expect(unsafe_code, reason = "reads and writes registers of devices")]
pub(crate) mod pci;
#[expect(unsafe_code, reason = "shares memory with devices")]
pub(crate) mod virtio;
