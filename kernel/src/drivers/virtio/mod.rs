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
//! | `queue`, `setup` | the queues of the console and of the entropy device; what the set-up of these two and of the network device has in common |
//! | `transport` | interrupts and notifications, which the crate virtio-drivers does not handle |
//! | `hal` | the DMA pool and mapped registers, for virtio-drivers |
//! | crate `kernel-virtio-block` | the protocol, without interrupts, locks and waiting; tested on the host |
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
//! | step | who owns the buffers | who waits, and how |
//! |---|---|---|
//! | lock the sectors | the queue's list of free buffers | the G, in the wait queue of a [`Mutex`](crate::platform::Mutex) |
//! | take a slot and buffers | the queue's list of free buffers | the G, in the FIFO queue of a [`Semaphore`](crate::platform::Semaphore) with one permit per buffer |
//! | copy in | the G | no G |
//! | submitted | the device; the `Buffers` are in the queue's table of requests in flight | the G, see below |
//! | answered | the slot | no G |
//! | copy out | the G | no G |
//!
//! A slot is an entry of a queue's table of answers. A queue has as many slots as buffers, and a request takes one
//! slot, and one or several buffers of 64 KiB in the DMA pool. A device has 256 buffers, or fewer if memory is short or
//! the device's queues are small. The queues share the buffers equally. Slots and buffers are allocated when the device
//! is set up, so submitting a request does not allocate memory. A G never waits for the lock of a sector while it has a
//! slot.
//!
//! # Large requests
//!
//! Each request costs the driver and QEMU a time that does not depend on the request's length. A request may have
//! several buffers and transfer up to 1 MiB, so that a long read or write needs few requests. A request takes at most a
//! quarter of a queue's buffers, so that large requests do not stop the small ones. A quarter of a queue's buffers is 1
//! MiB if there are four queues, and 512 KiB if there are eight. A longer read or write is divided into requests, one
//! after the other. A program that reads a whole disk should read several chunks at the same time, so that the device
//! works while data is copied.
//!
//! A G gets all buffers of its request at once. So Gs never wait for each other in a circle.
//!
//! # The order of waiting Gs
//!
//! A G that finds no queue with enough buffers waits for those of one queue, in the FIFO queue of this queue's
//! semaphore:
//!
//! - The Gs that wait for the same queue are served in the order in which they came. While a G waits there, no other G
//!   takes buffers of this queue, not even if enough for its own request are free. So small requests do not overtake a
//!   large one for ever, and each G is served when the requests before it have ended.
//! - There is no order between Gs that wait for different queues. A G that waits does not take the buffers of another
//!   queue, so a G that comes later can be served earlier there.
//!
//! An order for all queues together would need state that all CPUs change with each request.
//!
//! The data is copied between the buffers and the memory of the caller. Reading into the caller's memory directly would
//! save the copy. But a request cannot be cancelled. So after the limit of a call has ended the wait, the device could
//! still write to the caller's memory, for example to its stack.
//!
//! # A queue for each CPU
//!
//! If a device has several queues (`VIRTIO_BLK_F_MQ`), the driver uses one of them for each CPU, up to
//! [`MAX_QUEUES`](kernel_virtio_block::MAX_QUEUES). A G submits its request in the queue of the CPU on which it runs,
//! and the interrupt of the queue goes to that CPU. So CPUs do not wait for each other's locks, and an answer arrives
//! on the CPU whose cache has the data of the request.
//!
//! If the buffers of this queue are in use, the G takes those of the next queue that has enough. So the Gs of one CPU
//! can have as many requests in flight as the device has buffers. If no queue has enough, the G waits for the queue of
//! its CPU. When the wait is over, it uses the queue of the CPU on which it continues, if that queue has buffers at
//! once. A G that migrates later, for example while it copies data into its buffers, still uses the queue to which the
//! buffers belong.
//!
//! All interrupts of a device have the same vector. Each queue has its own entry of the MSI-X table, and these entries
//! differ only in the CPU. So the handler knows by its CPU which queue to serve, and a device with several queues needs
//! only one vector.
//!
//! There are fewer queues than CPUs in two cases: there are more CPUs than `MAX_QUEUES` or than queues of the device,
//! or there are not enough MSI-X entries or not enough memory. CPUs then share the queues. If messages of devices
//! cannot reach each CPU that would get the interrupts of a queue, there is only one queue.
//!
//! The two ways to access a disk differ only in how a G waits for the answer:
//!
//! - *Blocking*: a system call. The P is handed off, then the request is submitted, and the thread of the M parks. The
//!   handler unparks the thread. If no M can be created for the P, nothing is submitted.
//! - *Asynchronous*: the G parks until the slot's [signal](gmp_sched::device_signals) is raised. The handler raises it.
//!
//! # If the limit of a call ends the wait
//!
//! A request that was submitted cannot be cancelled, so it stays in flight. The call passes the slot and the locks of
//! the sectors to a new G, and returns an error at once. The new G waits for the answer without a limit. Then it
//! returns the slot and releases the locks. So no other request uses the buffer before the device has answered, and a
//! late write or discard never destroys a later write. If there is no memory for the new G, the call itself waits for
//! the answer.
//!
//! # A silent device
//!
//! The kernel option `disk_timeout_s` (30 by default) is a number of seconds. If a request has been in flight for this
//! time, and the device has answered no request meanwhile, a G that waits for an answer in the same queue resets the
//! device. As long as a slow device answers some requests, each of these answers restarts the time. But if a request
//! has been overtaken by a thousand others, it is lost, and the device is reset, too. The requests in flight are
//! submitted again, which is safe for writes, too: see [`Device::reset`](kernel_virtio_block::Device::reset). During
//! the reset the G holds the locks of all queues. A request that is in flight during two resets fails with
//! `RequestError::Silent`.
//!
//! Two events make a device unusable. Then all its requests fail, and the buffers that were in flight are never used
//! again:
//!
//! | event | error |
//! |---|---|
//! | it completes a request that is not in flight | `RequestError::Broken` |
//! | it does not confirm a reset, or its properties have changed after the reset: it may have been unplugged | `RequestError::Gone` |

pub(crate) mod call;
pub(crate) mod console;
pub(crate) mod device;
pub(crate) mod entropy;
mod hal;
pub(crate) mod memory_disk;
pub(crate) mod net;
mod queue;
mod request_queue;
mod sectors;
mod setup;
mod transport;

use alloc::vec::Vec;
use core::time::Duration;

use spin::Once;
use virtio_drivers::transport::DeviceType;

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
        let devices = transport::devices(DeviceType::Block).enumerate().map(|(index, function)| {
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
