//! A block device: its queues, its interrupts, and the reset of a device that does not answer. The documentation of the
//! module [`super`] contains a picture of the life of a request.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr;
use core::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::sync::Permit;
use gmp_sched::time::Instant;
use kernel_virtio::block::software::Connection;
use kernel_virtio::block::{Completion, Device, MAX_QUEUES, Properties, Queue, RequestError};
use kernel_virtio::{Doorbell as _, Transport};

use super::dma_pool::DmaPool;
use super::memory_disk::MemoryDisk;
use super::request_queue::RequestQueue;
use super::sectors::{Locked, SectorLocks};
use super::transport::{self, Doorbell};
use crate::arch::x86_64::{apic, interrupts};
use crate::cpu::cpus;
use crate::cpu::percpu::{self, CpuId};
use crate::cpu::sync::InterruptMutex;
use crate::drivers::disk_error::SetupError;
use crate::drivers::pci::Function;
use crate::mm::frame;
use crate::sched::platform::{Kernel, Limit};
use crate::sched::{kthread, startup};

/// A request takes at most 1/`QUEUE_SHARE` of the buffers of a queue, but at least one buffer, so that a large request
/// does not stop the others.
const QUEUE_SHARE: usize = 4;
/// The buffers of a device take at most 1/`MEMORY_SHARE` of the free memory.
const MEMORY_SHARE: usize = 16;
/// How many frames a device takes if it has only one queue with one buffer.
const LEAST_FRAMES: usize = 48;

/// Returns how many frames the buffers of a device may take. (If that is too few for one buffer, the device takes one
/// nevertheless.) It is at most half of the frames that the scheduler does not need to start with a P for each CPU. The
/// other half is for the queues.
///
/// # Errors
/// If a device with one buffer would leave too little for the start with one P.
fn frames_for_buffers() -> Result<usize, SetupError> {
    let spare = |procs| startup::frames_left().saturating_sub(startup::frames_for_start(cpus::count(), procs));
    if spare(1) < LEAST_FRAMES {
        return Err(SetupError::OutOfMemory);
    }
    Ok((frame::free_frames() / MEMORY_SHARE).min(spare(cpus::count()) / 2))
}

/// A request is lost, and not merely slow, if more requests than this have overtaken it after it had been in flight for
/// the time limit.
const MOST_OVERTAKING: usize = 1_000;

/// Resets a device: see [`Device::reset`]. This type hides that of the device's transport.
type Reset = Box<dyn FnMut(u64, &mut [&mut Queue], &mut dyn FnMut(u16, Completion)) + Send>;

/// A queue, and permits for some of its buffers.
pub(super) type Admission = (&'static RequestQueue, Permit<'static, Kernel>);

/// A virtio block device on the PCI bus, or a disk in memory.
pub(crate) struct BlockDevice {
    /// Locked while the ages of requests are checked and the device is reset. Taken before the locks of the queues.
    reset: InterruptMutex<Reset>,
    queues: Box<[RequestQueue]>,
    /// The CPU that gets the interrupts of the first queue.
    first_cpu: CpuId,
    sectors: SectorLocks,
    properties: Properties,
    request_bytes: usize,
    /// How long a request may be in flight while the device answers none. Then the device is reset.
    pub(super) time_limit: Duration,
}

impl fmt::Debug for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockDevice").field("properties", &self.properties).finish_non_exhaustive()
    }
}

impl fmt::Display for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queues, capacity, kib) = (self.queues.len(), self.capacity(), self.request_bytes / 1024);
        write!(f, "{queues} queues, {capacity} requests, {kib} KiB in a request")
    }
}

impl BlockDevice {
    /// Sets up the device, with a queue for each CPU if possible. The interrupts of the first queue go to `first_cpu`,
    /// and those of each further queue to the next CPU. `handler` contains the function that is called for each
    /// interrupt, and the argument of this function.
    ///
    /// # Errors
    /// If the device lacks or refuses something that the driver needs, or if there is no memory or no interrupt vector
    /// for the device. The device is then not used.
    pub(super) fn open(
        function: Function,
        first_cpu: CpuId,
        handler: (fn(usize), usize),
        time_limit: Duration,
    ) -> Result<Self, SetupError> {
        let most_frames = frames_for_buffers()?;
        let transport = transport::open(function, &targets(first_cpu), "virtio disk", handler)?;
        let most_queues = transport.messages();
        let (device, queues) = Device::open::<DmaPool>(transport, most_queues, most_frames)?;
        let queues = queues.into_iter().map(|queue| {
            let doorbell = device.transport().doorbell(queue.number())?;
            Ok::<_, SetupError>(RequestQueue::new(queue, doorbell))
        });
        Ok(Self::new(queues.collect::<Result<_, _>>()?, device, first_cpu, time_limit))
    }

    /// Sets up a disk in memory, like [`open`](Self::open).
    ///
    /// # Errors
    /// If there is no memory for the queues, or no interrupt vector.
    pub(super) fn open_in_memory(
        disk: &'static MemoryDisk,
        handler: (fn(usize), usize),
        time_limit: Duration,
    ) -> Result<Self, SetupError> {
        let most_frames = frames_for_buffers()?;
        disk.set_vector(
            interrupts::allocate("disk in memory", handler.0, handler.1).map_err(|_| SetupError::NoVector)?,
        );
        let most_queues = cpus::count().min(MAX_QUEUES);
        let (device, queues) = Device::open::<DmaPool>(Connection(disk), most_queues, most_frames)?;
        let queues = queues.into_iter().map(|queue| {
            let doorbell = Doorbell::Memory { disk, queue: queue.number() };
            RequestQueue::new(queue, doorbell)
        });
        Ok(Self::new(queues.collect(), device, disk.first_cpu(), time_limit))
    }

    fn new<T: Transport + Send + 'static>(
        queues: Box<[RequestQueue]>,
        mut device: Device<T>,
        first_cpu: CpuId,
        time_limit: Duration,
    ) -> Self {
        let properties = device.properties();
        // A G may use any queue, so the smallest queue determines how many buffers a request may have.
        let least = queues.iter().map(RequestQueue::capacity).min().unwrap_or(0);
        let request_buffers = (least / QUEUE_SHARE).clamp(1, properties.max_segments);
        Self {
            queues,
            properties,
            request_bytes: request_buffers * properties.segment_bytes,
            reset: InterruptMutex::new(Box::new(move |now, queues, ended| device.reset(now, queues, ended))),
            first_cpu,
            sectors: SectorLocks::new(),
            time_limit,
        }
    }

    /// Returns the properties that the device has reported.
    pub(crate) fn properties(&self) -> Properties {
        self.properties
    }

    /// Returns the largest number of data bytes that a request can have. The number is a multiple of the block size.
    pub(crate) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Returns the number of buffers, which is also the largest number of requests in flight (if each has one buffer).
    pub(crate) fn capacity(&self) -> usize {
        self.queues.iter().map(RequestQueue::capacity).sum()
    }

    /// Returns the number of buffers that no G uses.
    pub(crate) fn free_buffers(&self) -> usize {
        self.queues.iter().map(RequestQueue::free_buffers).sum()
    }

    /// Returns the number of buffers that are never used again, because the broken device may still access them.
    pub(crate) fn abandoned_buffers(&self) -> usize {
        self.queues.iter().map(RequestQueue::abandoned_buffers).sum()
    }

    /// Waits until no other G holds the lock of any of these sectors, and locks them. A G that has a slot must not call
    /// this function. A G that holds such a lock may wait for a slot, so the two Gs could wait for each other for ever.
    ///
    /// # Errors
    /// If the limit ends the wait.
    pub(crate) fn lock_sectors(
        &'static self,
        first: u64,
        count: u64,
        limit: &Limit<'_>,
    ) -> Result<Locked, ContextError> {
        self.sectors.lock(first, count, limit)
    }

    /// Waits until a queue has `count` free buffers, and takes permits for them. Returns this queue and the permits.
    ///
    /// The queue is that of the current CPU if possible. If the buffers of that queue are in use, it is the next queue
    /// that has enough free ones. So the Gs of one CPU can use all buffers of the device. If no queue has enough, the G
    /// waits for the queue of its CPU, in the order that the documentation of the module [`super`] describes.
    ///
    /// # Errors
    /// If the limit ends the wait.
    ///
    /// # Panics
    /// If `count` is more than the number of buffers of a queue.
    pub(super) fn admit(&'static self, count: u32, limit: &Limit<'_>) -> Result<Admission, ContextError> {
        let own = self.queue_of(percpu::current());
        // The queues after `own`, and then those before it.
        let (before, from_own) = self.queues.split_at(own.number.into());
        let mut queues = from_own.iter().chain(before);
        if let Some(free) = queues.find_map(|queue| Some((queue, queue.permits.try_acquire(count)?))) {
            return Ok(free);
        }
        let permits = own.permits.acquire_until(count, *limit)?;
        // The G may have waited, and may have continued on another CPU.
        let current = self.queue_of(percpu::current());
        if !ptr::eq(current, own)
            && let Some(better) = current.permits.try_acquire(count)
        {
            return Ok((current, better));
        }
        Ok((own, permits))
    }

    /// Returns how many requests of each queue have been answered on each CPU.
    pub(crate) fn served(&self) -> Vec<Vec<usize>> {
        self.queues.iter().map(RequestQueue::served).collect()
    }

    /// Returns the queue that a CPU uses. If there are as many queues as CPUs, this is the queue whose interrupts the
    /// CPU gets. If there are fewer queues, CPUs share queues, and a CPU that gets the interrupts of a queue uses that
    /// queue.
    pub(super) fn queue_of(&'static self, cpu: CpuId) -> &'static RequestQueue {
        let distance = (cpu.index() + cpus::count() - self.first_cpu.index()) % cpus::count();
        &self.queues[distance % self.queues.len()]
    }

    /// The interrupt handler: passes on the answers to all completed requests of the queue that interrupts the current
    /// CPU. Does not allocate.
    pub(super) fn serve_interrupt(&'static self) {
        if let Err(reason) = self.queue_of(percpu::current()).serve() {
            self.fail(reason);
        }
    }

    /// Ends the use of the device. All Gs that wait for an answer in any of its queues get the error `reason`.
    fn fail(&'static self, reason: RequestError) {
        if self.queues.iter().map(|queue| queue.fail(reason)).sum::<usize>() != 0 {
            log::error!("a block device has failed: {}", reason);
        }
    }

    /// Resets the device if a request of `queue` has been in flight for the time limit, and the device has answered no
    /// request meanwhile, or so many that this request must be lost. `answered_before` is for the caller's next check:
    /// how many requests the device had answered when a request was first found to be in flight for so long. Returns
    /// the time of the next check.
    pub(super) fn check(&'static self, queue: &'static RequestQueue, answered_before: &mut Option<usize>) -> Instant {
        let mut reset = self.reset.lock();
        let now = kthread::now();
        let since = queue.oldest().unwrap_or(now);
        if now < since + self.time_limit {
            return since + self.time_limit;
        }
        let progress = self.queues.iter().map(RequestQueue::progress);
        let (answered, last) = progress.fold((0, 0), |sum, queue| (sum.0 + queue.0, queue.1.max(sum.1)));
        let next = Instant::from_nanos(last) + self.time_limit;
        if now < next && answered - *answered_before.get_or_insert(answered) <= MOST_OVERTAKING {
            return next;
        }
        *answered_before = None;
        log::warn!("a block device has not answered a request for {:?}; it is reset", self.time_limit);
        let outcome = self.reset(&mut reset, now);
        drop(reset);
        match outcome {
            Ok(()) => self.queues.iter().for_each(|queue| queue.doorbell.ring()),
            Err(reason) => self.fail(reason),
        }
        now + self.time_limit
    }

    /// Resets the device and submits the requests in flight again. A request that has already been submitted twice ends
    /// with an error instead. Meanwhile no CPU can use a queue.
    fn reset(&'static self, reset: &mut Reset, now: Instant) -> Result<(), RequestError> {
        let mut locked: heapless::Vec<_, MAX_QUEUES> = self.queues.iter().map(|queue| queue.state.lock()).collect();
        let mut queues: heapless::Vec<_, MAX_QUEUES> = locked.iter_mut().map(|state| &mut state.queue).collect();
        reset(now.as_nanos(), &mut queues, &mut |number, completion| {
            self.queues[usize::from(number)].deliver(completion);
        });
        queues.iter().find_map(|queue| queue.broken()).map_or(Ok(()), Err)
    }
}

/// Returns the CPUs that get the interrupts of the queues, in the order of the queues' numbers. If messages of devices
/// cannot reach all of these CPUs, returns only `first`, because [`queue_of`](BlockDevice::queue_of) assumes that each
/// message reaches the CPU for which it is meant.
fn targets(first: CpuId) -> heapless::Vec<CpuId, MAX_QUEUES> {
    let cpus = (0..cpus::count()).map(|index| CpuId::new((first.index() + index) % cpus::count())).take(MAX_QUEUES);
    if cpus.clone().all(apic::is_device_target) { cpus.collect() } else { core::iter::once(first).collect() }
}
