//! Virtio devices on the PCI bus (Virtual I/O Device 1.2). Disks are the only devices that are supported.
//!
//! | module | what |
//! |---|---|
//! | [`blk`] | the block device: blocking requests, completed by interrupt |
//! | `request` | a request: its memory, its entry in the completion table, its outcome |
//! | `admission` | the queue of callers that wait while all slots are in use |
//! | `transport` | interrupts and notifications, which the crate virtio-drivers does not handle |
//! | `hal` | the DMA pool and mapped registers, for virtio-drivers |

mod admission;
pub(crate) mod blk;
mod hal;
mod request;
mod transport;

use alloc::vec::Vec;

use spin::Once;
use virtio_drivers::transport::DeviceType;
use virtio_drivers::transport::pci::virtio_device_type;

use self::blk::BlockDevice;
use crate::cpu::cpus;
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;
use crate::drivers::pci;

static BLOCK_DEVICES: Once<Vec<Result<BlockDevice, SetupError>>> = Once::new();

/// The block devices, in the order of their bus addresses. The list is empty until [`init`] has been called.
pub(crate) fn block_devices() -> &'static [Result<BlockDevice, SetupError>] {
    BLOCK_DEVICES.get().map_or(&[], Vec::as_slice)
}

/// Finds the devices and sets them up. Called once, after all CPUs have started, because each device gets a CPU for its
/// interrupts.
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

/// The interrupt handler of the block device with this index.
fn serve_block_device(index: usize) {
    if let Some(Ok(device)) = block_devices().get(index) {
        device.serve_interrupt();
    }
}
