//! A queue keeps the requests in flight, and matches the device's completions with them.

#![expect(unsafe_code, reason = "lends buffers to the device")]

use alloc::vec::Vec;
use core::fmt;
use core::mem::{self, ManuallyDrop};

use virtio_drivers::Hal;
use virtio_drivers::transport::Transport;

use crate::buffer::{Buffer, Buffers};
use crate::device::{DeviceId, MAX_BUFFERS, OpenError};
use crate::protocol::{self, Failure, Properties, Request};
use crate::ring::{MAX_ENTRIES, Ring};

/// The largest number of times that a request is submitted. A request is submitted again if the device is reset before
/// the request is answered.
const ATTEMPTS: u8 = 2;

/// The buffers of a request that was not submitted, and the reason.
#[derive(Debug)]
pub struct Refused {
    /// The buffers of the request.
    pub buffers: Buffers,
    /// Why the request was not submitted. `Unsupported` is also the reason if the request is too long, does not consist
    /// of whole blocks within the device, or does not fit into the buffers.
    pub reason: Failure,
}

/// A request that has ended.
#[derive(Debug)]
pub struct Completion<W> {
    /// The value that was submitted with the request.
    pub owner: W,
    /// The buffers of the request. `None` if the device is broken, because the device may then still access the
    /// buffers.
    pub buffers: Option<Buffers>,
    /// Whether the device has done what was requested.
    pub result: Result<(), Failure>,
}

/// A request in flight.
struct InFlight<W> {
    request: Request,
    buffers: Buffers,
    owner: W,
    /// When the request was submitted, or submitted again after a reset.
    since: u64,
    attempts: u8,
}

/// A queue of a device, and the requests that are in flight in it. `W` is the type of the value that is submitted with
/// each request, and returned with its answer.
pub struct Queue<H: Hal, W> {
    device: DeviceId,
    /// Dropped only after the device has been reset, because until then the device may access the memory of the queue.
    ring: ManuallyDrop<Ring<H>>,
    /// The requests in flight. The index of a request is its token, the number by which the device names it.
    in_flight: Vec<Option<InFlight<W>>>,
    /// A table as large as `in_flight`, for the requests that were in flight before a reset. The table is empty except
    /// during a reset.
    before_reset: Vec<Option<InFlight<W>>>,
    /// The free buffers. The vector has room for all buffers, so it never grows.
    free: Vec<Buffer>,
    /// Empty lists, each for the buffers of one request. The queue has as many lists as buffers, because a request
    /// takes at least one buffer. The lists that contain buffers are not in this vector.
    lists: Vec<Buffers>,
    /// The number of buffers that are never used again, because the device may still access them.
    abandoned: usize,
    properties: Properties,
    /// Why the device is not used any more. `None` while it is used.
    broken: Option<Failure>,
}

impl<H: Hal, W> fmt::Debug for Queue<H, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("number", &self.number())
            .field("in_flight", &self.in_flight_count())
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl<H: Hal, W> Queue<H, W> {
    /// Sets up the queue `number` of a device with these features and properties, without buffers. If this fails, the
    /// device does not use the queue.
    pub(crate) fn new(
        transport: &mut impl Transport,
        device: DeviceId,
        number: u16,
        (features, properties): (u64, Properties),
    ) -> Result<Self, OpenError> {
        let (mut in_flight, mut before_reset, mut free) = (Vec::new(), Vec::new(), Vec::new());
        for table in [&mut in_flight, &mut before_reset] {
            table.try_reserve_exact(MAX_ENTRIES).map_err(|_| OpenError::OutOfMemory)?;
            table.resize_with(MAX_ENTRIES, || None);
        }
        free.try_reserve_exact(MAX_BUFFERS).map_err(|_| OpenError::OutOfMemory)?;
        let ring = ManuallyDrop::new(Ring::new(transport, number, features)?);
        Ok(Self {
            device,
            ring,
            in_flight,
            before_reset,
            free,
            lists: Vec::new(),
            abandoned: 0,
            properties,
            broken: None,
        })
    }

    /// Allocates the lists that the queue needs for `count` buffers, but not the buffers themselves.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), OpenError> {
        self.lists.try_reserve_exact(count).map_err(|_| OpenError::OutOfMemory)?;
        for _ in 0..count {
            self.lists.push(Buffers::with_room(self.properties.segment_bytes).ok_or(OpenError::OutOfMemory)?);
        }
        Ok(())
    }

    /// Adds a buffer. The caller has called [`reserve`](Self::reserve), and adds no more buffers than it has reserved.
    pub(crate) fn add_buffer(&mut self, buffer: Buffer) {
        self.free.push(buffer);
    }

    /// Frees the memory of the queue.
    ///
    /// # Safety
    /// The device has been reset since the queue was set up, and the queue is not used any more.
    pub(crate) unsafe fn free_ring(&mut self) {
        // SAFETY: the caller promises that neither the device nor this code uses the field afterwards.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }

    /// Returns the id of the device to which the queue belongs.
    pub(crate) fn device(&self) -> DeviceId {
        self.device
    }

    /// Returns the largest number of buffers that the queue may have. With no more buffers than that, the queue always
    /// has room for the requests that have these buffers.
    pub(crate) fn room(&self) -> usize {
        self.ring.room()
    }

    /// Returns the number of the queue in its device.
    pub fn number(&self) -> u16 {
        self.ring.number()
    }

    /// Returns why the device is broken, or `None` if it is not broken. All requests to a broken device fail for this
    /// reason.
    pub fn broken(&self) -> Option<Failure> {
        self.broken
    }

    /// Stops the use of the queue, because the device is broken. The caller must then call
    /// [`take_failed`](Self::take_failed) until it returns `None`. Does nothing if the queue has failed before.
    pub fn fail(&mut self, reason: Failure) {
        self.broken.get_or_insert(reason);
    }

    /// Returns the number of buffers that are free.
    pub fn free_buffers(&self) -> usize {
        self.free.len()
    }

    /// Returns the number of buffers that are never used again, because the device is broken and may still access them.
    pub fn abandoned_buffers(&self) -> usize {
        self.abandoned
    }

    /// Returns the number of requests in flight.
    pub fn in_flight_count(&self) -> usize {
        self.in_flight.iter().flatten().count()
    }

    /// Takes `count` free buffers for one request. Returns `None`, and takes no buffer, if there are fewer.
    ///
    /// # Panics
    /// If `count` is 0, or is more than the device allows for a request.
    pub fn take_buffers(&mut self, count: usize) -> Option<Buffers> {
        assert!((1..=self.properties.max_segments).contains(&count), "{count} buffers for a request");
        if self.free.len() < count {
            return None;
        }
        let mut buffers = self.lists.pop()?;
        buffers.fill(count, &mut self.free);
        Some(buffers)
    }

    /// Puts buffers back into the list of free buffers. The buffers must come from this queue.
    ///
    /// # Panics
    /// If the queue has no room for the buffers. This shows that they come from another queue.
    pub fn put_buffers(&mut self, mut buffers: Buffers) {
        let (free, lists) = (&mut self.free, &mut self.lists);
        let has_room = buffers.count() <= free.capacity() - free.len() && lists.len() < lists.capacity();
        assert!(has_room, "buffers are put back to the queue that they came from");
        free.extend(buffers.drain());
        lists.push(buffers);
    }

    /// Submits a request. The caller must then notify the device. `now` is the time, in a unit of the caller.
    ///
    /// # Errors
    /// If the device is broken or does not offer the request, if the request is too long or does not consist of whole
    /// blocks within the device, or if the buffers are too small. The queue always has room for a request that
    /// has its buffers (see `room`).
    pub fn submit(&mut self, request: Request, buffers: Buffers, owner: W, now: u64) -> Result<(), Refused> {
        if let Some(reason) = self.broken {
            return Err(Refused { buffers, reason });
        }
        let (read, written) = request.data_bytes();
        if !self.properties.allows(request) || read.max(written) > buffers.bytes() {
            return Err(Refused { buffers, reason: Failure::Unsupported });
        }
        self.add(InFlight { request, buffers, owner, since: now, attempts: 1 })
            .map_err(|refused| Refused { buffers: refused.buffers, reason: Failure::Failed })
    }

    fn add(&mut self, mut in_flight: InFlight<W>) -> Result<(), InFlight<W>> {
        let pieces = in_flight.buffers.prepare(in_flight.request);
        // SAFETY: this function puts the buffers into the table of requests in flight. Nothing accesses buffers in that
        // table until `complete` has taken the request or `Device::reset` has reset the device.
        let Some(token) = (unsafe { self.ring.add(&pieces) }) else { return Err(in_flight) };
        self.in_flight[usize::from(token)] = Some(in_flight);
        Ok(())
    }

    /// Takes the next completed request. Returns `None` if there is none at the moment, or if the device is broken. In
    /// the second case the caller must [`fail`](Self::fail) all queues of the device, and call
    /// [`take_failed`](Self::take_failed) until it returns `None`.
    pub fn complete(&mut self) -> Option<Completion<W>> {
        if self.broken.is_some() {
            return None;
        }
        let (token, written) = self.ring.take()?;
        let token = u16::try_from(token).ok();
        let entry = token.and_then(|token| Some((token, self.in_flight.get_mut(usize::from(token))?.take()?)));
        let Some((token, InFlight { request, buffers, owner, .. })) = entry else {
            self.broken = Some(Failure::Broken);
            return None;
        };
        // The pieces are the same as in `add`, because they depend on the request and its buffers only.
        let pieces = buffers.pieces(request);
        self.ring.free(token, &pieces);
        let result = protocol::result(request, written, pieces.status());
        Some(Completion { owner, buffers: Some(buffers), result })
    }

    /// If the device is broken, takes one of the requests in flight, so that the caller can deliver the failure.
    /// Returns `None` if the device is not broken, or if no request is in flight.
    pub fn take_failed(&mut self) -> Option<Completion<W>> {
        let reason = self.broken?;
        let InFlight { owner, buffers, .. } = self.in_flight.iter_mut().find_map(Option::take)?;
        self.abandon(buffers);
        Some(Completion { owner, buffers: None, result: Err(reason) })
    }

    /// Gives up the memory of buffers, because the device may still access it. The empty list is kept, because freeing
    /// it would use the heap.
    fn abandon(&mut self, mut buffers: Buffers) {
        self.abandoned += buffers.count();
        drop(buffers.drain());
        self.lists.push(buffers);
    }

    /// Returns the time at which the oldest request in flight was submitted, or submitted again after a reset. Returns
    /// `None` if no request is in flight. Completions of other requests do not change this time, because the device may
    /// have lost the oldest request. This function reads the whole table of requests, so it should be called only if a
    /// request has been in flight for a long time.
    pub fn oldest(&self) -> Option<u64> {
        self.in_flight.iter().flatten().map(|request| request.since).min()
    }

    /// Sets up the queue again. The device has been reset.
    pub(crate) fn renew(&mut self, transport: &mut impl Transport) -> Result<(), Failure> {
        self.ring.renew(transport).map_err(|_| Failure::Gone)
    }

    /// Submits the requests in flight again. The device has been reset, and the queue was set up again. A request that
    /// has been submitted twice is passed to `ended` instead.
    pub(crate) fn submit_again(&mut self, now: u64, mut ended: impl FnMut(Completion<W>)) {
        mem::swap(&mut self.in_flight, &mut self.before_reset);
        for index in 0..self.before_reset.len() {
            let Some(mut request) = self.before_reset[index].take() else { continue };
            let is_last = request.attempts >= ATTEMPTS;
            request.attempts += 1;
            request.since = now;
            // `add` also writes the header again. The device may have changed it, although it should not.
            let rest = if is_last { Err(request) } else { self.add(request) };
            if let Err(InFlight { owner, buffers, .. }) = rest {
                ended(Completion { owner, buffers: Some(buffers), result: Err(Failure::Silent) });
            }
        }
    }
}
