//! The errors of disks, on the machine and on the host. The module `host/disk` includes this file by its path.

use core::fmt;

use gmp_sched::platform::OutOfResources;

use crate::mm::OutOfMemory;

/// Why a disk could not be read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// The offset is past the end of the disk, or the data to write does not fit before the end of the disk or of its
    /// device.
    OutOfRange,
    /// The offset or the length of the data to write is not a multiple of the sector size.
    Unaligned,
    /// The disk is read-only.
    ReadOnly,
    /// No M could be created to run the other Gs during the access.
    OutOfResources,
    /// The disk has no device, or the device could not be set up.
    Unusable(SetupError),
    /// The device reported an error.
    Request(RequestError),
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("past the end of the disk"),
            Self::Unaligned => f.write_str("not whole sectors"),
            Self::ReadOnly => f.write_str("the disk is read-only"),
            Self::OutOfResources => OutOfResources.fmt(f),
            Self::Unusable(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for DiskError {}

impl From<OutOfResources> for DiskError {
    fn from(_: OutOfResources) -> Self {
        Self::OutOfResources
    }
}

impl From<RequestError> for DiskError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestError {
    /// The device reports an input/output error.
    Failed,
    /// The device does not know the request.
    Unsupported,
    /// The queue of the device did not take the request.
    Refused,
    /// The device has violated the protocol, for example by completing a request that was not submitted. The driver
    /// does not use the device any more.
    Broken,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "the device reports an input/output error",
            Self::Unsupported => "the device does not know the request",
            Self::Refused => "the queue does not take the request",
            Self::Broken => "the device does not keep to the protocol and is not used any more",
        })
    }
}

impl core::error::Error for RequestError {}

/// Why a device could not be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupError {
    /// No device was found for a disk that `boot` has announced.
    Missing,
    /// There is no memory for the device's queue and buffers.
    OutOfMemory,
    /// All interrupt vectors are in use.
    NoVector,
    /// The device's registers cannot be accessed, or its interrupts cannot be routed.
    Pci(PciError),
    /// The device does not support virtio 1.
    NotVirtio,
    /// The device refused the queue or its interrupt vector.
    Refused,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such device"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::NoVector => f.write_str("all interrupt vectors are taken"),
            Self::Pci(error) => error.fmt(f),
            Self::NotVirtio => f.write_str("the device does not speak virtio 1"),
            Self::Refused => f.write_str("the device refused its set-up"),
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
    /// The registers are not at the address that the device reports, or the firmware has not assigned an address.
    NoRegisters,
    /// The device has no MSI-X.
    NoMessages,
    /// The CPU that should take the interrupts is not up, or its APIC id does not fit into an interrupt message.
    NoSuchCpu,
}

impl fmt::Display for PciError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfMemory => "no memory to map the registers",
            Self::NoRegisters => "the registers are not where they should be",
            Self::NoMessages => "the device does not interrupt by messages (MSI-X)",
            Self::NoSuchCpu => "messages cannot reach the CPU",
        })
    }
}

impl core::error::Error for PciError {}

impl From<OutOfMemory> for PciError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}
