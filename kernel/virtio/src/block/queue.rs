//! A queue keeps the buffers of a disk's requests, and matches the device's answers with them.

#![expect(unsafe_code, reason = "promises to the queue that a request owns its memory, and frees the queue's memory")]

use alloc::vec::Vec;
use core::fmt;
use core::mem;

use super::buffers::Buffers;
use super::protocol::{self, Properties, Request, RequestError};
use super::{DeviceId, MAX_BUFFERS};
use crate::memory::{Memory, Span};
use crate::ring::{MAX_ENTRIES, Payload, Pieces, Ring, room};
use crate::rings::Descriptor;
use crate::{Dma, INDIRECT, OpenError, Transport};

/// The largest number of times that a request is submitted. A request is submitted again if the device is reset before
/// the request is answered.
const ATTEMPTS: u8 = 2;
/// In a queue without indirect descriptors, this number of entries is available for each buffer. A request with one
/// buffer takes two entries: for the piece that the device reads, and for the piece that it writes. Each further buffer
/// takes one entry.
const BUFFER_ENTRIES: usize = 2;

/// The buffers of a request that was not submitted, and the reason.
#[derive(Debug)]
pub struct Refused {
    /// The buffers of the request.
    pub buffers: Buffers,
    /// Why the request was not submitted. `Unsupported` is also the reason if the request is too long, does not consist
    /// of whole blocks within the device, or does not fit into the buffers.
    pub reason: RequestError,
}

/// A request that has ended.
#[derive(Debug)]
pub struct Completion {
    /// The [number](Buffers::slot) of the buffers.
    pub slot: u16,
    /// The buffers of the request. `None` if the device is broken, because the device may then still access the
    /// buffers.
    pub buffers: Option<Buffers>,
    /// Whether the device has done what was requested.
    pub result: Result<(), RequestError>,
}

/// A request in flight.
struct InFlight {
    request: Request,
    buffers: Buffers,
    /// When the request was submitted, or submitted again after a reset.
    since: u64,
    attempts: u8,
}

// SAFETY: the buffers belong to the value. As long as it is in the queue, its request does not change.
unsafe impl Payload for InFlight {
    fn pieces(&self) -> Pieces {
        self.buffers.pieces(self.request)
    }

    fn table(&mut self) -> (&[Descriptor], Span) {
        self.buffers.table()
    }
}

impl InFlight {
    fn ended(self, result: Result<(), RequestError>) -> Completion {
        Completion { slot: self.buffers.slot(), buffers: Some(self.buffers), result }
    }
}

/// A queue of a device, and the requests that are in flight in it.
pub struct Queue {
    device: DeviceId,
    ring: Ring<InFlight>,
    /// Room for the requests that were in flight before a reset. Empty except during a reset.
    before_reset: Vec<InFlight>,
    /// The free buffers. The vector has room for all buffers, so it never grows.
    free: Vec<Memory>,
    /// Empty lists, each for the buffers of one request. The queue has at least as many lists as buffers, because a
    /// request takes at least one buffer. The lists that contain buffers are not in this vector.
    lists: Vec<Buffers>,
    /// The number of buffers that are never used again, because the device may still access them.
    abandoned: usize,
    properties: Properties,
    /// Why the device is not used any more. `None` while it is used.
    broken: Option<RequestError>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("number", &self.number())
            .field("in_flight", &self.in_flight_count())
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// Sets up the queue `number` of a device with these features and properties, without buffers. If this fails, the
    /// device does not use the queue.
    pub(super) fn new<M: Dma>(
        transport: &mut impl Transport,
        device: DeviceId,
        number: u16,
        (features, properties): (u64, Properties),
    ) -> Result<Self, OpenError> {
        let (before_reset, free) = (room(MAX_ENTRIES)?, room(MAX_BUFFERS)?);
        let ring = Ring::new::<M>(transport, number, features & INDIRECT != 0)?;
        Ok(Self { device, ring, before_reset, free, lists: Vec::new(), abandoned: 0, properties, broken: None })
    }

    /// Allocates the lists that the queue needs for `count` buffers, but not the buffers themselves.
    pub(super) fn reserve(&mut self, count: usize) -> Result<(), OpenError> {
        self.lists = room(count)?;
        for slot in (0..count as u16).rev() {
            self.lists.push(Buffers::with_room(self.properties.segment_bytes, slot)?);
        }
        Ok(())
    }

    /// Adds a buffer. The caller has called [`reserve`](Self::reserve), and adds no more buffers than it has reserved.
    pub(super) fn add_buffer(&mut self, buffer: Memory) {
        self.free.push(buffer);
    }

    /// Frees the memory of the rings, but not that of the buffers.
    ///
    /// # Safety
    /// The queue was made with the same `M`, and the device has been reset since then.
    pub(super) unsafe fn free_ring<M: Dma>(self) {
        // SAFETY: the caller promises this.
        unsafe { self.ring.free::<M>() };
    }

    /// Returns the id of the device to which the queue belongs.
    pub(super) fn device(&self) -> DeviceId {
        self.device
    }

    /// Returns the largest number of buffers that the queue may have. With no more buffers than that, the queue always
    /// has room for the requests that have these buffers.
    pub(super) fn room(&self) -> usize {
        if self.ring.is_indirect() { self.ring.entries() } else { self.ring.entries() / BUFFER_ENTRIES }
    }

    /// Returns the number of the queue in its device.
    pub fn number(&self) -> u16 {
        self.ring.number()
    }

    /// Returns why the device is broken, or `None` if it is not broken. All requests to a broken device fail for this
    /// reason.
    pub fn broken(&self) -> Option<RequestError> {
        self.broken
    }

    /// Stops the use of the queue, because the device is broken. The caller must then call
    /// [`take_failed`](Self::take_failed) until it returns `None`. Does nothing if the queue has failed before.
    pub fn fail(&mut self, reason: RequestError) {
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
        self.ring.in_flight().count()
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
    pub fn submit(&mut self, request: Request, buffers: Buffers, now: u64) -> Result<(), Refused> {
        if let Some(reason) = self.broken {
            return Err(Refused { buffers, reason });
        }
        let (read, written) = request.data_bytes();
        if !self.properties.allows(request) || read.max(written) > buffers.bytes() {
            return Err(Refused { buffers, reason: RequestError::Unsupported });
        }
        self.add(InFlight { request, buffers, since: now, attempts: 1 })
            .map_err(|refused| Refused { buffers: refused.buffers, reason: RequestError::Failed })
    }

    fn add(&mut self, mut request: InFlight) -> Result<(), InFlight> {
        request.buffers.prepare(request.request);
        self.ring.add(request)
    }

    /// Takes the next completed request. Returns `None` if there is none at the moment, or if the device is broken. In
    /// the second case the caller must [`fail`](Self::fail) all queues of the device, and call
    /// [`take_failed`](Self::take_failed) until it returns `None`.
    pub fn complete(&mut self) -> Option<Completion> {
        if self.broken.is_some() {
            return None;
        }
        match self.ring.complete() {
            Ok(completed) => completed.map(|(in_flight, written)| {
                let status = in_flight.buffers.status(in_flight.request);
                let result = protocol::result(in_flight.request, written, status);
                in_flight.ended(result)
            }),
            Err(_) => {
                self.broken = Some(RequestError::Broken);
                None
            }
        }
    }

    /// If the device is broken, takes one of the requests in flight, so that the caller can deliver the failure.
    /// Returns `None` if the device is not broken, or if no request is in flight. The buffers are given up, because the
    /// device may still access them.
    pub fn take_failed(&mut self) -> Option<Completion> {
        let reason = self.broken?;
        let InFlight { mut buffers, .. } = self.ring.remove().next()?;
        self.abandoned += buffers.count();
        drop(buffers.drain());
        let slot = buffers.slot();
        // The empty list is kept, because freeing it would use the heap.
        self.lists.push(buffers);
        Some(Completion { slot, buffers: None, result: Err(reason) })
    }

    /// Returns the time at which the oldest request in flight was submitted, or submitted again after a reset. Returns
    /// `None` if no request is in flight. Completions of other requests do not change this time, because the device may
    /// have lost the oldest request. This function reads the whole table of requests, so it should be called only if a
    /// request has been in flight for a long time.
    pub fn oldest(&self) -> Option<u64> {
        self.ring.in_flight().map(|request| request.since).min()
    }

    /// Sets up the queue again. The device has been reset.
    pub(super) fn renew(&mut self, transport: &mut impl Transport) -> Result<(), RequestError> {
        self.ring.renew(transport).map_err(|_| RequestError::Gone)
    }

    /// Submits the requests in flight again. The device has been reset, and the queue was set up again. A request that
    /// has been submitted twice is passed to `ended` instead.
    pub(super) fn submit_again(&mut self, now: u64, mut ended: impl FnMut(Completion)) {
        let mut before_reset = mem::take(&mut self.before_reset);
        before_reset.extend(self.ring.remove());
        for mut request in before_reset.drain(..) {
            let is_last = request.attempts >= ATTEMPTS;
            request.attempts += 1;
            request.since = now;
            // `add` also writes the header again. The device may have changed it, although it should not.
            let rest = if is_last { Err(request) } else { self.add(request) };
            if let Err(request) = rest {
                ended(request.ended(Err(RequestError::Silent)));
            }
        }
        self.before_reset = before_reset;
    }
}
