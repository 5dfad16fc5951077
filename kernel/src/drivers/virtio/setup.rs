//! The part of the set-up that the console, the entropy device and the network device have in common: from the PCI bus
//! to the point at which the driver sets up its queues (virtio 1.2, 3.1.1).

use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport as _};

use super::transport::{self, MessageTransport};
use crate::arch::x86_64::interrupts;
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;
use crate::drivers::pci;

/// Finds the first device of this type, and prepares it for its driver. The interrupts of the device go to `cpu`, where
/// they call `handler`.
///
/// # Errors
/// `SetupError::Missing` if there is no such device. Other errors if it cannot be used.
pub(super) fn find(
    wanted: DeviceType,
    cpu: CpuId,
    name: &'static str,
    handler: fn(usize),
) -> Result<MessageTransport, SetupError> {
    let function = transport::devices(wanted).next().ok_or(SetupError::Missing)?;
    transport::check(function)?;
    let device = pci::Device::enable(function);
    let vector = interrupts::allocate(name, handler, 0).map_err(|_| SetupError::NoVector)?;
    let messages = device.route_messages(vector, &[cpu])?;
    transport::open(&device, messages)
}

/// Resets the device and agrees with it on features: those that the driver needs, and those of `optional` that the
/// device offers. Returns the status of the device, and the features. When the device has its queues, the driver adds
/// `DRIVER_OK` to this status.
///
/// # Errors
/// If the device does not confirm the reset, lacks one of the needed features, or refuses the features.
pub(super) fn negotiate(
    transport: &mut MessageTransport,
    needed: u64,
    optional: u64,
) -> Result<(DeviceStatus, u64), SetupError> {
    if !kernel_virtio_block::reset(transport) {
        return Err(SetupError::Refused);
    }
    let mut status = DeviceStatus::empty();
    for step in [DeviceStatus::ACKNOWLEDGE, DeviceStatus::DRIVER] {
        status |= step;
        transport.set_status(status);
    }
    let features = transport.read_device_features() & (needed | optional);
    if features & needed != needed {
        return Err(SetupError::Refused);
    }
    transport.write_driver_features(features);
    status |= DeviceStatus::FEATURES_OK;
    transport.set_status(status);
    let is_agreed = transport.get_status().contains(DeviceStatus::FEATURES_OK);
    is_agreed.then_some((status, features)).ok_or(SetupError::Refused)
}
