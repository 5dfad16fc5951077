//! The errors of disks, on the machine and on the host. The module `host/disk` includes this file by its path.

use core::fmt;

use embedded_io::ErrorKind;
use gmp_sched::cancel::ContextError;
use gmp_sched::platform::OutOfResources;
pub use kernel_virtio::block::RequestError;

use crate::mm::OutOfMemory;

/// Why an access to a disk failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// The offset is past the end of the disk, or a range to write or to discard extends past the end of the disk. This
    /// error is also returned if the device is smaller than the disk, and the range extends past the end of the device.
    OutOfRange,
    /// The call would change the disk, which is read-only.
    ReadOnly,
    /// A seek would set the position of a [`DiskCursor`](crate::disk::DiskCursor) before the beginning of the disk, or
    /// to more than the largest `u64`.
    InvalidPosition,
    /// No M could be created to run the other Gs during the access. Or the context of the access needs a G that ends
    /// the access, and there was no memory for that G.
    OutOfResources,
    /// The access reached its limit (a deadline or a context) before the device answered. The device may still do what
    /// was requested.
    Limit(ContextError),
    /// The disk has no device, or the device could not be set up.
    Unusable(SetupError),
    /// A request to the device failed.
    Request(RequestError),
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("past the end of the disk"),
            Self::ReadOnly => f.write_str("the disk is read-only"),
            Self::InvalidPosition => f.write_str("before the beginning of the disk, or too large a position"),
            Self::OutOfResources => OutOfResources.fmt(f),
            Self::Limit(error) => error.fmt(f),
            Self::Unusable(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for DiskError {}

impl embedded_io::Error for DiskError {
    /// Returns the kind of the error. The kind is never `Interrupted`, because a caller usually repeats a call that was
    /// interrupted, and could then repeat it for ever.
    fn kind(&self) -> ErrorKind {
        match self {
            // `embedded_io::Write` requires this kind for a write at the end.
            Self::OutOfRange => ErrorKind::WriteZero,
            Self::InvalidPosition => ErrorKind::InvalidInput,
            Self::ReadOnly => ErrorKind::PermissionDenied,
            Self::Limit(ContextError::DeadlineExceeded) | Self::Request(RequestError::Silent) => ErrorKind::TimedOut,
            Self::Unusable(SetupError::Missing) => ErrorKind::NotFound,
            Self::Request(RequestError::Unsupported) => ErrorKind::Unsupported,
            Self::OutOfResources | Self::Unusable(SetupError::OutOfMemory) => ErrorKind::OutOfMemory,
            Self::Limit(ContextError::Canceled) | Self::Unusable(_) | Self::Request(_) => ErrorKind::Other,
        }
    }
}

impl From<OutOfResources> for DiskError {
    fn from(_: OutOfResources) -> Self {
        Self::OutOfResources
    }
}

impl From<ContextError> for DiskError {
    fn from(error: ContextError) -> Self {
        Self::Limit(error)
    }
}

impl From<RequestError> for DiskError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// Why a device could not be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupError {
    /// There is no such device. For a disk: no device was found for a disk that `boot` has announced.
    Missing,
    /// There is no memory for the device's queue and buffers.
    OutOfMemory,
    /// All interrupt vectors are in use.
    NoVector,
    /// The device's registers cannot be accessed, or its interrupts cannot be routed.
    Pci(PciError),
    /// The device does not support virtio 1, or its configuration makes no sense.
    NotVirtio,
    /// The device lacks or refuses a feature, has no queue that the driver can use, refused the interrupt vector of the
    /// queue, or has not confirmed a reset.
    Refused,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such device"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::NoVector => f.write_str("all interrupt vectors are taken"),
            Self::Pci(error) => error.fmt(f),
            Self::NotVirtio => f.write_str("the device does not speak virtio 1, or its configuration makes no sense"),
            Self::Refused => f.write_str("the set-up of the device failed"),
        }
    }
}

impl core::error::Error for SetupError {}

impl From<PciError> for SetupError {
    fn from(error: PciError) -> Self {
        Self::Pci(error)
    }
}

impl From<OutOfMemory> for SetupError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// Why a device on the PCI bus cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PciError {
    /// There is no memory to map the device's registers.
    OutOfMemory,
    /// The device describes its registers wrongly, or the firmware has not assigned an address to them.
    NoRegisters,
    /// The device has registers that are I/O ports instead of memory.
    Ports,
    /// The kernel has mapped the registers of as many devices as it can.
    TooManyDevices,
    /// The device has no MSI-X.
    NoMessages,
    /// There is no CPU whose APIC id fits into an interrupt message.
    NoSuchCpu,
}

impl fmt::Display for PciError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfMemory => "no memory to map the registers",
            Self::NoRegisters => "the registers are not where they should be",
            Self::Ports => "the driver needs registers in memory, but the device's are I/O ports",
            Self::TooManyDevices => "the kernel has no place for the registers of more devices (64 BARs)",
            Self::NoMessages => "the device does not interrupt by messages (MSI-X)",
            Self::NoSuchCpu => "messages can reach no CPU",
        })
    }
}

impl core::error::Error for PciError {}

impl From<OutOfMemory> for PciError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}
