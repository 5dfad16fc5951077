//! The device: setting it up, dividing its buffers among its queues, resetting it.

#![expect(unsafe_code, reason = "divides memory into buffers, and frees the memory of queues")]

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicUsize, Ordering};

use virtio_drivers::transport::{DeviceStatus, Transport};
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

use crate::buffer::{BUFFER_PAGES, Buffer};
use crate::protocol::{Failure, Properties, SUPPORTED};
use crate::queue::{Completion, Queue};
use crate::ring::MAX_ENTRIES;

/// The largest number of buffers, and thus of requests in flight, in all queues together.
pub(crate) const MAX_BUFFERS: usize = MAX_ENTRIES;
/// The number of queues is chosen so that each queue can have at least this number of buffers. If memory runs short, a
/// queue may have fewer.
const QUEUE_BUFFERS: usize = 8;
/// The largest number of queues of a device.
pub const MAX_QUEUES: usize = 16;
const _: () = assert!(MAX_QUEUES * QUEUE_BUFFERS <= MAX_BUFFERS);
/// The largest number of buffers that are allocated together. Their memory is less than 4 MiB, the largest block of
/// consecutive frames that the kernel's allocator has.
const PIECE_BUFFERS: usize = 60;
const _: () = assert!(PIECE_BUFFERS * BUFFER_PAGES <= 1024);
/// The largest number of times that the status register is read before the driver stops waiting for a reset.
const RESET_READS: usize = 10_000;

/// Why a device could not be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// There is no memory for a queue and a buffer.
    OutOfMemory,
    /// The device does not support virtio 1, or its configuration makes no sense or keeps changing while it is read.
    NotSupported,
    /// The device does not confirm a reset, refuses the features, or has no queue that the driver can use.
    Refused,
}

/// Distinguishes the devices, so that a queue is never used with another device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeviceId(usize);

impl DeviceId {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A block device, without its queues.
pub struct Device<H: Hal, T: Transport> {
    // Never dropped. Dropping the transport of virtio-drivers resets the device, and waits without a limit until the
    // device confirms that.
    transport: ManuallyDrop<T>,
    id: DeviceId,
    queues: usize,
    features: u64,
    properties: Properties,
    hal: PhantomData<H>,
}

impl<H: Hal, T: Transport> fmt::Debug for Device<H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("properties", &self.properties).finish_non_exhaustive()
    }
}

impl<H: Hal, T: Transport> Device<H, T> {
    /// Sets up a device with at most `max_queues` queues. Returns the device and its queues, in the order of their
    /// numbers. There is at least one queue, and each has at least one buffer. The buffers of all queues together take
    /// at most `max_pages` pages, unless that is too few for one buffer.
    ///
    /// # Errors
    /// If there is no memory, or the device lacks or refuses something that the driver needs. If the error comes after
    /// the features were negotiated, the device is reset. If the device does not confirm this reset, the memory of the
    /// queues that were set up is never freed.
    pub fn open<W>(transport: T, max_queues: usize, max_pages: usize) -> Result<(Self, Vec<Queue<H, W>>), OpenError> {
        let mut transport = ManuallyDrop::new(transport);
        let (features, properties) = negotiate(&mut *transport)?;
        let mut device = Self { transport, id: DeviceId::new(), queues: 0, features, properties, hal: PhantomData };
        let max_buffers = MAX_BUFFERS.min(max_pages / BUFFER_PAGES);
        let most = max_queues.min(properties.queues.into()).min(max_buffers / QUEUE_BUFFERS).clamp(1, MAX_QUEUES);
        let mut queues = Vec::new();
        let outcome = device.make_queues(most, &mut queues).and_then(|()| add_buffers(&mut queues, max_buffers.max(1)));
        if let Err(error) = outcome {
            if reset(&mut *device.transport) {
                for queue in &mut queues {
                    // SAFETY: the device has confirmed a reset, and the queue is dropped below.
                    unsafe { queue.free_ring() };
                }
            }
            return Err(error);
        }
        device.queues = queues.len();
        device.transport.finish_init();
        Ok((device, queues))
    }

    /// Makes `most` queues, or as many as the device and the memory allow. Returns an error if not even one can be
    /// made.
    fn make_queues<W>(&mut self, most: usize, queues: &mut Vec<Queue<H, W>>) -> Result<(), OpenError> {
        queues.try_reserve_exact(most).map_err(|_| OpenError::OutOfMemory)?;
        for number in (0..).take(most) {
            match Queue::new(&mut *self.transport, self.id, number, (self.features, self.properties)) {
                Ok(queue) => queues.push(queue),
                Err(error) if number == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Returns the properties that the device has reported.
    pub fn properties(&self) -> Properties {
        self.properties
    }

    /// Returns the transport, for the tasks that this crate does not do, such as interrupts.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Resets the device, and submits the requests in flight again, each in its queue. The caller must then notify the
    /// device of all queues. Does nothing if the device is broken already. `queues` are all queues of the device, in
    /// the order of their numbers. A request that has been submitted twice is not submitted again, but passed to
    /// `ended`, with the number of its queue.
    ///
    /// It is safe to submit a write again. The device may have written the data already, but writing the same data
    /// twice has the same result as writing it once, at the later time. The data of another write to the same sectors
    /// is lost only if both writes were in flight at the same time. The device promises no order for such writes.
    ///
    /// The device is broken afterwards if it does not confirm the reset, if its features or properties have changed, or
    /// if it refuses a queue ([`Failure::Gone`]). If the device is broken, the caller must call [`Queue::take_failed`]
    /// for each queue until it returns `None`.
    ///
    /// # Panics
    /// If `queues` are not the queues of this device.
    pub fn reset<W>(&mut self, now: u64, queues: &mut [&mut Queue<H, W>], mut ended: impl FnMut(u16, Completion<W>)) {
        let is_own = |(index, queue): (usize, &&mut Queue<H, W>)| {
            queue.device() == self.id && usize::from(queue.number()) == index
        };
        assert!(queues.len() == self.queues && queues.iter().enumerate().all(is_own), "all queues of this device");
        if queues.iter().any(|queue| queue.broken().is_some()) {
            return;
        }
        if let Err(reason) = self.set_up_again(queues) {
            queues.iter_mut().for_each(|queue| queue.fail(reason));
            return;
        }
        self.transport.finish_init();
        for queue in queues {
            let number = queue.number();
            queue.submit_again(now, |completion| ended(number, completion));
        }
    }

    fn set_up_again<W>(&mut self, queues: &mut [&mut Queue<H, W>]) -> Result<(), Failure> {
        // `negotiate` resets the device. Until the device has confirmed the reset, it may access the buffers of the
        // requests in flight. So each queue keeps these requests in its table `in_flight` until then.
        if negotiate(&mut *self.transport) != Ok((self.features, self.properties)) {
            return Err(Failure::Gone);
        }
        queues.iter_mut().try_for_each(|queue| queue.renew(&mut *self.transport))
    }
}

/// Allocates up to `most` buffers, in pieces of consecutive pages, and adds them to the queues in rotation. If there is
/// no memory for a piece, tries a piece of half the size, and so on. If such a smaller piece was allocated, memory is
/// short. Then this function continues only if all missing buffers fit into another piece of the same size. A queue for
/// which there is no buffer is removed.
fn add_buffers<H: Hal, W>(queues: &mut Vec<Queue<H, W>>, most: usize) -> Result<(), OpenError> {
    let room = queues.iter().map(Queue::room).min().unwrap_or(0);
    let count = queues.len();
    let each = (most / count).clamp(1, room);
    queues.iter_mut().try_for_each(|queue| queue.reserve(each))?;
    let total = count * each;
    let mut made = 0;
    let mut piece = total.min(PIECE_BUFFERS);
    while piece > 0 {
        let (address, start) = H::dma_alloc(piece * BUFFER_PAGES, BufferDirection::Both);
        if address == 0 {
            piece /= 2;
            continue;
        }
        for index in 0..piece {
            let offset = index * BUFFER_PAGES * PAGE_SIZE;
            // SAFETY: the range has `piece * BUFFER_PAGES` pages.
            let start = unsafe { start.add(offset) };
            // SAFETY: the pages were allocated for this buffer, are never freed, and are filled with zeros. The pages
            // are also consecutive for the device.
            queues[made % count].add_buffer(unsafe { Buffer::new(start, address + offset as PhysAddr) });
            made += 1;
        }
        let missing = total - made;
        if piece < PIECE_BUFFERS.min(missing) {
            break;
        }
        piece = missing.min(PIECE_BUFFERS);
    }
    if made == 0 {
        return Err(OpenError::OutOfMemory);
    }
    // The device may still read the memory of the queues that are dropped here. Dropping a queue does not free that
    // memory.
    queues.truncate(made);
    Ok(())
}

/// Resets a virtio device of any kind. Returns whether the device has confirmed this within 10,000 reads of its status
/// (virtio 1.2, 4.1.4.3.2). Polls; does not block.
pub fn reset(transport: &mut impl Transport) -> bool {
    transport.set_status(DeviceStatus::empty());
    (0..RESET_READS).any(|_| transport.get_status() == DeviceStatus::empty())
}

/// Resets the device, and agrees with it on features (virtio 1.2, 3.1.1).
fn negotiate(transport: &mut impl Transport) -> Result<(u64, Properties), OpenError> {
    if !reset(transport) {
        return Err(OpenError::Refused);
    }
    let status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
    transport.set_status(status);
    let features = transport.read_device_features() & SUPPORTED;
    transport.write_driver_features(features);
    let status = status | DeviceStatus::FEATURES_OK;
    transport.set_status(status);
    if !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
        return Err(OpenError::Refused);
    }
    let properties = Properties::read(transport, features).ok_or(OpenError::NotSupported)?;
    Ok((features, properties))
}
