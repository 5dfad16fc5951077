//! The driver of block devices (virtio 1.2, 5.2): setting a device up, dividing its buffers among its queues, resetting
//! it.
//!
//! A [`Device`] has one or several [`Queue`]s of up to 256 entries each. Each queue has its own requests in flight, and
//! its own buffers in memory that the device may access. So CPUs that use different queues share only the device, and
//! each queue can have a lock of its own. Only a reset or a failure of the device concerns all queues.
//!
//! A request has one to [`MAX_REQUEST_BUFFERS`] buffers of [`BUFFER_BYTES`] each, as many as its data needs. A device
//! may allow fewer or smaller ones. A request with one buffer consists of two pieces of memory. The device reads the
//! first piece (the header, and the data to write), and writes the second piece (the data read, and the status). Each
//! further buffer adds a piece.
//!
//! If the device offers *indirect descriptors*, and the queue has at least 32 entries, a request takes one entry: that
//! of a table with a descriptor of each piece. The table is in the first buffer of the request, so adding a request
//! allocates nothing. Otherwise each piece takes an entry. A device has at most 256 buffers (17 MiB) in all queues
//! together, and a queue has at most one buffer per entry (per two entries without indirect descriptors). So up to 256
//! requests are in flight, and a request that has its buffers always finds room in the queue.
//!
//! # A device in software
//!
//! The module [`software`] is the device's half, for a disk in memory. If its requests come at the same times in two
//! runs, its answers come at the same times, too.

#![expect(unsafe_code, reason = "frees the memory of queues")]

mod buffers;
mod protocol;
mod queue;
pub mod software;
pub mod stripes;

use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use self::protocol::SUPPORTED;
use crate::memory::Memory;
use crate::ring::{MAX_ENTRIES, room};
use crate::{Dma, OpenError, PAGE_SIZE, Transport, negotiate, reset, start};

pub use self::buffers::{BUFFER_BYTES, BUFFER_PAGES, Buffers, MAX_REQUEST_BUFFERS, MAX_REQUEST_BYTES};
pub use self::protocol::{Properties, Request, RequestError, SECTOR_SIZE};
pub use self::queue::{Completion, Queue, Refused};

/// The largest number of buffers, and thus of requests in flight, in all queues together.
const MAX_BUFFERS: usize = MAX_ENTRIES;
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
/// Distinguishes the devices, so that a queue is never used with another device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DeviceId(usize);

impl DeviceId {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A block device, without its queues.
pub struct Device<T: Transport> {
    transport: T,
    id: DeviceId,
    queues: usize,
    features: u64,
    properties: Properties,
}

impl<T: Transport> fmt::Debug for Device<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("properties", &self.properties).finish_non_exhaustive()
    }
}

impl<T: Transport> Device<T> {
    /// Sets up a device with at most `max_queues` queues. Returns the device and its queues, in the order of their
    /// numbers. There is at least one queue, and each has at least one buffer. The buffers of all queues together take
    /// at most `max_pages` pages, unless that is too few for one buffer.
    ///
    /// # Errors
    /// If there is no memory, or the device lacks or refuses something that the driver needs. If the driver has begun to
    /// set up queues, the device is reset. If the device does not confirm this reset, the memory of the queues that were
    /// set up is never freed.
    pub fn open<M: Dma>(
        mut transport: T,
        max_queues: usize,
        max_pages: usize,
    ) -> Result<(Self, Vec<Queue>), OpenError> {
        let (features, properties) = agree(&mut transport)?;
        let mut device = Self { transport, id: DeviceId::new(), queues: 0, features, properties };
        let max_buffers = MAX_BUFFERS.min(max_pages / BUFFER_PAGES);
        let most = max_queues.min(properties.queues.into()).min(max_buffers / QUEUE_BUFFERS).clamp(1, MAX_QUEUES);
        let mut queues = Vec::new();
        let outcome = device.make_queues::<M>(most, &mut queues);
        if let Err(error) = outcome.and_then(|()| add_buffers::<M>(&mut queues, max_buffers.max(1))) {
            if reset(&mut device.transport) {
                for queue in queues {
                    // SAFETY: the device has confirmed a reset, and the queue was made with the same `M`.
                    unsafe { queue.free_ring::<M>() };
                }
            }
            return Err(error);
        }
        device.queues = queues.len();
        start(&mut device.transport);
        Ok((device, queues))
    }

    /// Makes `most` queues, or as many as the device and the memory allow. Returns an error if not even one can be
    /// made.
    fn make_queues<M: Dma>(&mut self, most: usize, queues: &mut Vec<Queue>) -> Result<(), OpenError> {
        *queues = room(most)?;
        for number in (0..).take(most) {
            match Queue::new::<M>(&mut self.transport, self.id, number, (self.features, self.properties)) {
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
    /// if it refuses a queue ([`RequestError::Gone`]). If the device is broken, the caller must call [`Queue::take_failed`]
    /// for each queue until it returns `None`.
    ///
    /// # Panics
    /// If `queues` are not the queues of this device.
    pub fn reset(&mut self, now: u64, queues: &mut [&mut Queue], mut ended: impl FnMut(u16, Completion)) {
        let is_own =
            |(index, queue): (usize, &&mut Queue)| queue.device() == self.id && usize::from(queue.number()) == index;
        assert!(queues.len() == self.queues && queues.iter().enumerate().all(is_own), "all queues of this device");
        if queues.iter().any(|queue| queue.broken().is_some()) {
            return;
        }
        if let Err(reason) = self.set_up_again(queues) {
            queues.iter_mut().for_each(|queue| queue.fail(reason));
            return;
        }
        start(&mut self.transport);
        for queue in queues {
            let number = queue.number();
            queue.submit_again(now, |completion| ended(number, completion));
        }
    }

    fn set_up_again(&mut self, queues: &mut [&mut Queue]) -> Result<(), RequestError> {
        // `agree` resets the device. Until the device has confirmed the reset, it may access the buffers of the
        // requests in flight. So each queue keeps these requests until then.
        if agree(&mut self.transport) != Ok((self.features, self.properties)) {
            return Err(RequestError::Gone);
        }
        queues.iter_mut().try_for_each(|queue| queue.renew(&mut self.transport))
    }
}

/// Allocates up to `most` buffers, in pieces of consecutive pages, and adds them to the queues in rotation. If there is
/// no memory for a piece, tries a piece of half the size, and so on. If such a smaller piece was allocated, memory is
/// short. Then this function continues only if all missing buffers fit into another piece of the same size. A queue for
/// which there is no buffer is removed.
fn add_buffers<M: Dma>(queues: &mut Vec<Queue>, most: usize) -> Result<(), OpenError> {
    let room = queues.iter().map(Queue::room).min().unwrap_or(0);
    let count = queues.len();
    let each = (most / count).clamp(1, room);
    queues.iter_mut().try_for_each(|queue| queue.reserve(each))?;
    let total = count * each;
    let mut made = 0;
    let mut piece = total.min(PIECE_BUFFERS);
    while piece > 0 {
        let Ok(mut memory) = Memory::allocate::<M>(piece * BUFFER_PAGES) else {
            piece /= 2;
            continue;
        };
        for _ in 0..piece {
            queues[made % count].add_buffer(memory.split_off(BUFFER_PAGES * PAGE_SIZE));
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
    // The device may still read the memory of the queues that are dropped here. It is never freed.
    queues.truncate(made);
    Ok(())
}

/// Resets the device, agrees with it on features, and reads its properties.
fn agree(transport: &mut impl Transport) -> Result<(u64, Properties), OpenError> {
    let features = negotiate(transport, 0, SUPPORTED)?;
    let properties = Properties::read(transport, features).ok_or(OpenError::NotSupported)?;
    Ok((features, properties))
}
