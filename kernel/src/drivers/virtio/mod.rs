//! Virtio devices on the PCI bus (Virtual I/O Device 1.2): so far, disks.
//!
//! | module | what |
//! |---|---|
//! | [`blk`] | the block device: blocking requests, completed by interrupt |
//! | `request` | memory, completion table and outcome of a request |
//! | `admission` | who waits when all slots of a queue are in use |
//! | `transport` | interrupts and notifications, which virtio-drivers does not handle |
//! | `hal` | the DMA pool and mapped registers, for virtio-drivers |

mod admission;
pub(crate) mod blk;
mod hal;
mod request;
mod transport;

use alloc::vec::Vec;
use core::fmt;

use spin::Once;
use virtio_drivers::transport::DeviceType;
use virtio_drivers::transport::pci::virtio_device_type;

use self::blk::BlockDevice;
use crate::arch::x86_64::interrupts::NoVectorLeft;
use crate::cpu::cpus;
use crate::cpu::percpu::CpuId;
use crate::drivers::pci::{self, PciError};
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

static BLOCK_DEVICES: Once<Vec<Result<BlockDevice, SetupError>>> = Once::new();

/// The block devices, in the order of their bus addresses. Empty until [`init`].
pub(crate) fn block_devices() -> &'static [Result<BlockDevice, SetupError>] {
    BLOCK_DEVICES.get().map_or(&[], Vec::as_slice)
}

/// Finds the devices and sets them up. Called once, after all CPUs have started: the interrupts are distributed over them.
pub(crate) fn init() {
    BLOCK_DEVICES.call_once(|| {
        let mut root = pci::root();
        let functions = pci::functions(&root).into_iter();
        let block = functions.filter(|(_, info)| virtio_device_type(info) == Some(DeviceType::Block));
        let devices = block.enumerate().map(|(index, (function, _))| {
            let cpu = CpuId::new(index % cpus::count());
            BlockDevice::open(&mut root, function, cpu, (serve_block_device, index))
                .inspect_err(|error| log::error!("block device {function}: {error}"))
        });
        devices.collect()
    });
}

/// Interrupt handler of the block device with this index.
fn serve_block_device(index: usize) {
    if let Some(Ok(device)) = block_devices().get(index) {
        device.serve_interrupt();
    }
}
