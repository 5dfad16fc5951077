//! Why a device could not be set up.

use core::fmt;

use crate::arch::x86_64::interrupts::NoVectorLeft;
use crate::drivers::pci::PciError;
use crate::mm::OutOfMemory;

/// Why a device could not be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupError {
    /// It is on no bus: fewer devices were found than were announced.
    Missing,
    /// There is no memory for its queue and buffers.
    OutOfMemory,
    /// All interrupt vectors are in use.
    NoVector,
    /// The bus cannot access its registers or route its interrupts.
    Pci(PciError),
    /// It does not support virtio 1.
    NotVirtio,
    /// It refused the queue, or its interrupt.
    Refused,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such device"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::NoVector => NoVectorLeft.fmt(f),
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
