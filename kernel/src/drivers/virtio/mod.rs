//! Virtio devices on the PCI bus (Virtual I/O Device 1.2): disks, the console, the entropy device and the network
//! device. This module also contains disks in memory, which are virtio devices in software.
//!
//! | module | what |
//! |---|---|
//! | [`device`] | a block device: its queues, its interrupts, its reset |
//! | `request_queue` | a queue of a block device: its lock, its slots, and the wakeup of the G whose answer has arrived |
//! | [`call`] | a slot and buffers that a G has taken, its requests, and its wait for the answers |
//! | `sectors` | locks for sectors, so that no write or discard destroys another write |
//! | [`memory_disk`] | disks in memory, which answer at times that are the same in every run |
//! | [`console`] | the console device: a port for output |
//! | [`entropy`] | the entropy device: random numbers |
//! | [`net`] | the network device: frames |
//! | `transport` | the registers, interrupts and notifications of a device on the bus |
//! | `dma_pool` | the memory for queues and buffers |
//! | crate `kernel-virtio` | queues, buffers and protocols, without interrupts, locks and waiting; tested on the host |
//!
//! # The life of a request
//!
//! ```text
//!  G   lock the sectors (writes, discards) ▶ take a slot and buffers ▶ copy in ▶ submit, ring the doorbell ▶ wait
//!                                                                              │                       ▲
//!  device                                                                      ▼                       │ wake
//!                                                          reads and writes the buffers ▶ interrupt    │
//!                                                                                             │        │
//!  handler                                                                                    ▼        │
//!                                          match the completion with a request ▶ put the answer into the slot
//!
//!  G   take the answer ▶ copy out ▶ return the buffers and the slot ▶ unlock the sectors
//! ```
//!
//! A call takes three things, in this order, and a G that waits for one of them holds only those before it. So Gs
//! cannot wait for each other in a circle:
//!
//! - *The locks of its sectors*, if it is a write or a discard (`sectors`).
//! - *Permits for all its buffers at once*, of one queue. A buffer has 64 KiB. Each request costs the driver and QEMU a
//!   time that does not depend on its length, so a request may have several buffers and transfer up to 1 MiB, but no
//!   more than a quarter of a queue's buffers, so that large requests do not stop the small ones. A longer read or
//!   write is divided into requests, one after the other. A program that reads a whole disk should read several chunks
//!   at the same time, so that the device works while data is copied.
//! - *The buffers, with the slot* in which the answer arrives. They are free, because the G has the permits for them.
//!   They were allocated when the device was set up, so submitting a request does not allocate memory.
//!
//! The data is copied between the buffers and the memory of the caller. Reading into the caller's memory directly would
//! save the copy. But a request cannot be cancelled. So after the limit of a call has ended the wait, the device could
//! still write to the caller's memory, for example to its stack.
//!
//! # A queue for each CPU
//!
//! If a device has several queues (`VIRTIO_BLK_F_MQ`), the driver uses one of them for each CPU, up to
//! [`MAX_QUEUES`](kernel_virtio::block::MAX_QUEUES). A G submits its request in the queue of the CPU on which it runs,
//! and the interrupt of the queue goes to that CPU. So CPUs do not wait for each other's locks, and an answer arrives
//! on the CPU whose cache has the data of the request. If the device has fewer queues or MSI-X entries than there are
//! CPUs, or memory is short, CPUs share queues. If messages of devices cannot reach each CPU, there is one queue.
//!
//! If the buffers of this queue are in use, the G takes those of the next queue that has enough. If no queue has
//! enough, the G waits in the FIFO queue of its CPU's queue. There, no other G overtakes it, not even if enough buffers
//! for a smaller request are free. So each G is served when the requests before it have ended. Between Gs that wait for
//! different queues there is no order: it would need state that all CPUs change with each request. A G that migrates
//! later still uses the queue to which its buffers belong.
//!
//! All interrupts of a device have the same vector. The entries of its MSI-X table differ only in the CPU. So the
//! handler knows by its CPU which queue to serve.
//!
//! # How a G waits for the answer
//!
//! - *Blocking*: a system call. The P is handed off, then the request is submitted, and the thread of the M parks. The
//!   handler unparks the thread. If no M can be created for the P, nothing is submitted.
//! - *Asynchronous*: the G parks until the slot's [signal](gmp_sched::device_signals) is raised. The handler raises it.
//!
//! If the limit of the call ends the wait, the request stays in flight. The call passes the slot and the locks of the
//! sectors to a new G, and returns an error at once. The new G waits for the answer without a limit, and then returns
//! the slot and releases the locks. So no other request uses the buffers before the device has answered, and a late
//! write or discard never destroys a later write. If there is no memory for the new G, the call itself waits for the
//! answer.
//!
//! # A silent device
//!
//! The kernel option `disk_timeout_s` (30 by default) is a number of seconds. If a request has been in flight for this
//! time, and the device has answered no request meanwhile, a G that waits for an answer in the same queue resets the
//! device. As long as a slow device answers some requests, each of these answers restarts the time. But if a request
//! has been overtaken by a thousand others, it is lost, and the device is reset, too. The requests in flight are
//! submitted again, which is safe for writes, too: see [`Device::reset`](kernel_virtio::block::Device::reset). During
//! the reset the G holds the locks of all queues. A request that is in flight during two resets fails with
//! `RequestError::Silent`.
//!
//! A device becomes unusable if it violates the protocol, for example by completing a request that is not in flight
//! (`RequestError::Broken`). It also becomes unusable if it does not confirm a reset, or has other properties after the
//! reset, perhaps because it was unplugged (`RequestError::Gone`). Then all its requests fail, and the buffers that
//! were in flight are never used again.

pub(crate) mod call;
pub(crate) mod console;
pub(crate) mod device;
mod dma_pool;
pub(crate) mod entropy;
pub(crate) mod memory_disk;
pub(crate) mod net;
mod request_queue;
mod sectors;
mod transport;

use alloc::vec::Vec;
use core::time::Duration;

use spin::Once;

pub(crate) use self::device::BlockDevice;
use self::memory_disk::Model;
use crate::cpu::cpus;
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;

static BLOCK_DEVICES: Once<Vec<Result<BlockDevice, SetupError>>> = Once::new();

/// Returns the block devices: first those on the bus, in the order of their addresses, and then the disks in memory.
/// The list is empty until [`init`] has been called.
pub(crate) fn block_devices() -> &'static [Result<BlockDevice, SetupError>] {
    BLOCK_DEVICES.get().map_or(&[], Vec::as_slice)
}

/// Finds the devices and sets them up. If a device does not answer a request within `time_limit`, the device is reset.
/// Called once, after all CPUs have started, because they get the interrupts of the devices. The first queues of the
/// devices are assigned to different CPUs. Disks in memory follow after the devices on the bus, and answer as `model`
/// says.
pub(crate) fn init(time_limit: Duration, model: Model) {
    BLOCK_DEVICES.call_once(|| {
        let devices = transport::devices(transport::BLOCK).enumerate().map(|(index, function)| {
            let cpu = CpuId::new(index % cpus::count());
            BlockDevice::open(function, cpu, (serve_block_device, index), time_limit)
                .inspect(|device| log::info!("block device {function}: {device}"))
                .inspect_err(|error| log::error!("block device {function}: {error}"))
        });
        let mut devices: Vec<_> = devices.collect();
        let in_memory = memory_disk::find(devices.len(), model).iter().zip(devices.len()..);
        devices.extend(in_memory.map(|(disk, index)| {
            BlockDevice::open_in_memory(disk, (serve_block_device, index), time_limit)
                .inspect(|device| log::info!("disk in memory: {device}"))
                .inspect_err(|error| log::error!("disk in memory: {error}"))
        }));
        devices
    });
}

/// The interrupt handler of the block device with this index.
fn serve_block_device(index: usize) {
    if let Some(Ok(device)) = block_devices().get(index) {
        device.serve_interrupt();
    }
}
