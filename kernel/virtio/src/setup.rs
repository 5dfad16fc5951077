//! The steps of the set-up that are the same for all devices (virtio 1.2, 3.1.1), and the reset.

use crate::Transport;

/// `VIRTIO_F_INDIRECT_DESC`: the descriptors of a request may be in a table of their own.
pub const INDIRECT: u64 = 1 << 28;
/// `VIRTIO_F_VERSION_1`: the device is not a legacy device. All drivers need this feature.
pub const VERSION_1: u64 = 1 << 32;

/// Bits of the status register (virtio 1.2, 2.1).
const ACKNOWLEDGE: u8 = 1;
const DRIVER: u8 = 2;
const DRIVER_OK: u8 = 4;
const FEATURES_OK: u8 = 8;
const DEVICE_NEEDS_RESET: u8 = 64;

/// The largest number of times that the status register is read before the driver stops waiting for a reset.
const RESET_READS: usize = 10_000;

/// Why a device could not be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// There is not enough memory for the queues and their buffers.
    OutOfMemory,
    /// The device does not support virtio 1, or its configuration is missing, makes no sense, or changes whenever it is
    /// read.
    NotSupported,
    /// The device does not confirm a reset, lacks or refuses a feature, or has no queue that the driver can use.
    Refused,
}

/// Resets a device. Returns whether the device has confirmed this within 10,000 reads of its status (virtio 1.2,
/// 4.1.4.3.2). Polls; does not block.
pub fn reset(transport: &mut impl Transport) -> bool {
    transport.set_status(0);
    (0..RESET_READS).any(|_| transport.status() == 0)
}

/// Whether a device says that it has met an error from which only a reset helps (virtio 1.2, 2.1.2). Its interrupt for
/// changes of the configuration makes the driver look.
pub(crate) fn needs_reset(transport: &impl Transport) -> bool {
    transport.status() & DEVICE_NEEDS_RESET != 0
}

/// Resets a device, and agrees with it on features: [`VERSION_1`], those that are `needed`, and those of `optional`
/// that the device offers. Returns these features. The driver then sets up its queues, and calls [`start`]. If it fails
/// after this function has returned, it must reset the device.
///
/// # Errors
/// If the device does not confirm the reset, lacks [`VERSION_1`] or a needed feature, or refuses the features.
pub fn negotiate(transport: &mut impl Transport, needed: u64, optional: u64) -> Result<u64, OpenError> {
    if !reset(transport) {
        return Err(OpenError::Refused);
    }
    transport.set_status(ACKNOWLEDGE | DRIVER);
    let features = transport.offered_features() & (VERSION_1 | needed | optional);
    if features & VERSION_1 == 0 {
        return Err(OpenError::NotSupported);
    }
    if features & needed != needed {
        return Err(OpenError::Refused);
    }
    transport.accept_features(features);
    transport.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK);
    let is_agreed = transport.status() & FEATURES_OK != 0;
    is_agreed.then_some(features).ok_or(OpenError::Refused)
}

/// Makes the device use its queues, and announce changes of its configuration if it can.
pub fn start(transport: &mut impl Transport) {
    transport.announce_changes();
    transport.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
}
