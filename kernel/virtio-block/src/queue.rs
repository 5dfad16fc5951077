//! A queue: the requests in flight, and matching completions with them.

#![expect(unsafe_code, reason = "lends buffers to the device")]

use alloc::vec::Vec;
use core::fmt;
use core::mem::{self, ManuallyDrop};

use virtio_drivers::Hal;
use virtio_drivers::transport::Transport;

use crate::buffer::{Buffer, Pieces};
use crate::device::{DeviceId, MAX_BUFFERS, OpenError};
use crate::protocol::{self, Failure, Properties, Request};
use crate::ring::{MAX_ENTRIES, REQUEST_ENTRIES, Ring};

/// The largest number of times that a request is submitted. It is submitted again if the device is reset before it
/// answers.
const ATTEMPTS: u8 = 2;

/// The buffer of a request that was not submitted, and the reason.
#[derive(Debug)]
pub struct Refused {
    /// The buffer of the request.
    pub buffer: Buffer,
    /// The reason. It is `Unsupported`, too, if the request extends past the end of the device.
    pub reason: Failure,
}

/// A request that is over.
#[derive(Debug)]
pub struct Completion<W> {
    /// The value that was submitted with the request.
    pub owner: W,
    /// The buffer of the request. `None` if the device is broken, because the device may then still access the buffer.
    pub buffer: Option<Buffer>,
    /// Whether the device has done what was requested.
    pub result: Result<(), Failure>,
}

/// A request in flight.
struct InFlight<W> {
    request: Request,
    buffer: Buffer,
    pieces: Pieces,
    owner: W,
    /// When the request was submitted, or submitted again after a reset.
    since: u64,
    attempts: u8,
}

// SAFETY: the pieces point into the buffer, which is `Send`.
unsafe impl<W: Send> Send for InFlight<W> {}

/// A queue of a device, and the requests that are in flight in it. `W` is a value that belongs to each request.
pub struct Queue<H: Hal, W> {
    device: DeviceId,
    /// Dropped only after the device has been reset, because until then the device accesses the memory of the queue.
    ring: ManuallyDrop<Ring<H>>,
    /// The requests in flight, by token.
    in_flight: Vec<Option<InFlight<W>>>,
    /// A table of the same size for the requests that were in flight before a reset. It is empty except during a reset.
    before_reset: Vec<Option<InFlight<W>>>,
    /// The free buffers. The vector has room for all buffers, so it never grows.
    free: Vec<Buffer>,
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
    /// Sets up the queue `number` of a device, without buffers. If this fails, the device does not use the queue.
    pub(crate) fn new(
        transport: &mut impl Transport,
        device: DeviceId,
        number: u16,
        properties: Properties,
    ) -> Result<Self, OpenError> {
        let (mut in_flight, mut before_reset, mut free) = (Vec::new(), Vec::new(), Vec::new());
        for table in [&mut in_flight, &mut before_reset] {
            table.try_reserve_exact(MAX_ENTRIES).map_err(|_| OpenError::OutOfMemory)?;
            table.resize_with(MAX_ENTRIES, || None);
        }
        free.try_reserve_exact(MAX_BUFFERS).map_err(|_| OpenError::OutOfMemory)?;
        let ring = ManuallyDrop::new(Ring::new(transport, number).map_err(OpenError::from)?);
        Ok(Self { device, ring, in_flight, before_reset, free, properties, broken: None })
    }

    /// Frees the memory of the queue.
    ///
    /// # Safety
    /// The device has been reset since the queue was set up, and the queue is not used any more.
    pub(crate) unsafe fn free_ring(&mut self) {
        // SAFETY: the caller promises that neither the device nor this code uses the field afterwards.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }

    /// The device to which the queue belongs.
    pub(crate) fn device(&self) -> DeviceId {
        self.device
    }

    /// The number of requests for which the queue has room.
    pub(crate) fn room(&self) -> usize {
        self.ring.entries() / REQUEST_ENTRIES
    }

    /// The number of the queue in its device.
    pub fn number(&self) -> u16 {
        self.ring.number()
    }

    /// If the device is broken, returns the reason. Then all requests fail for this reason.
    pub fn broken(&self) -> Option<Failure> {
        self.broken
    }

    /// Stops the use of the queue, because the device is broken. The caller must then call
    /// [`take_failed`](Self::take_failed) until it returns `None`. Does nothing if the queue has failed before.
    pub fn fail(&mut self, reason: Failure) {
        self.broken.get_or_insert(reason);
    }

    /// The number of buffers that are free.
    pub fn free_buffers(&self) -> usize {
        self.free.len()
    }

    /// The number of requests in flight.
    pub fn in_flight_count(&self) -> usize {
        self.in_flight.iter().flatten().count()
    }

    /// Takes a buffer out of the list of free buffers, if there is one.
    pub fn take_buffer(&mut self) -> Option<Buffer> {
        self.free.pop()
    }

    /// Puts a buffer back into the list of free buffers. The buffer must come from this queue.
    ///
    /// # Panics
    /// If more buffers are put back than a device can have.
    pub fn put_buffer(&mut self, buffer: Buffer) {
        assert!(self.free.len() < self.free.capacity(), "a buffer is put back to the queue that it came from");
        self.free.push(buffer);
    }

    /// Submits a request. The caller must then notify the device. `now` is the time, in a unit of the caller.
    ///
    /// # Errors
    /// If the device does not offer the request, the request extends past the end of the device, or the device is
    /// broken. The queue always has room for a request, because there is no more than one buffer for each two entries.
    pub fn submit(&mut self, request: Request, buffer: Buffer, owner: W, now: u64) -> Result<(), Refused> {
        if let Some(reason) = self.broken {
            return Err(Refused { buffer, reason });
        }
        if !self.properties.allows(request) {
            return Err(Refused { buffer, reason: Failure::Unsupported });
        }
        let mut buffer = buffer;
        let pieces = buffer.prepare(request);
        self.add(InFlight { request, buffer, pieces, owner, since: now, attempts: 1 })
            .map_err(|refused| Refused { buffer: refused.buffer, reason: Failure::Failed })
    }

    fn add(&mut self, in_flight: InFlight<W>) -> Result<(), InFlight<W>> {
        // SAFETY: the buffer is now in the table of requests in flight, where nothing accesses it, until `complete` has
        // popped the request or `Device::reset` has reset the device.
        match unsafe { self.ring.add(in_flight.pieces) } {
            Ok(token) => {
                self.in_flight[usize::from(token)] = Some(in_flight);
                Ok(())
            }
            Err(_) => Err(in_flight),
        }
    }

    /// Takes the next completed request. Returns `None` if there is none at the moment, or if the device is broken. In
    /// the second case the caller must [`fail`](Self::fail) all queues of the device, and call
    /// [`take_failed`](Self::take_failed) until it returns `None`.
    pub fn complete(&mut self) -> Option<Completion<W>> {
        if self.broken.is_some() {
            return None;
        }
        let token = self.ring.peek()?;
        let entry = self.in_flight.get_mut(usize::from(token));
        let Some(InFlight { request, buffer, pieces, owner, .. }) = entry.and_then(Option::take) else {
            self.broken = Some(Failure::Broken);
            return None;
        };
        // SAFETY: `add` has put the request into the table under its token, and it was taken from there just now.
        let Ok(written) = (unsafe { self.ring.pop(token, pieces) }) else {
            // The device has changed its list of completed requests since `peek`, so it is broken. The buffer is not
            // returned, because the device may still access it.
            self.broken = Some(Failure::Broken);
            return Some(Completion { owner, buffer: None, result: Err(Failure::Broken) });
        };
        let result = protocol::result(request, written, pieces.status());
        Some(Completion { owner, buffer: Some(buffer), result })
    }

    /// If the device is broken, takes one of the requests in flight, so that the caller can deliver the failure.
    pub fn take_failed(&mut self) -> Option<Completion<W>> {
        let reason = self.broken?;
        let InFlight { owner, .. } = self.in_flight.iter_mut().find_map(Option::take)?;
        Some(Completion { owner, buffer: None, result: Err(reason) })
    }

    /// When the oldest request in flight was submitted, or submitted again after a reset. `None` if no request is in
    /// flight. Completions of other requests do not change this time, because the device may have lost this one. Reads
    /// the whole table of requests, so it should be called only if a request has been in flight for long.
    pub fn oldest(&self) -> Option<u64> {
        self.in_flight.iter().flatten().map(|request| request.since).min()
    }

    /// Sets up the queue again. The device has been reset.
    pub(crate) fn renew(&mut self, transport: &mut impl Transport) -> Result<(), Failure> {
        self.ring.renew(transport).map_err(|error| match OpenError::from(error) {
            OpenError::OutOfMemory => Failure::OutOfMemory,
            _ => Failure::Gone,
        })
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
            // The device may have changed the header, although it should not.
            request.pieces = request.buffer.prepare(request.request);
            let rest = if is_last { Err(request) } else { self.add(request) };
            if let Err(InFlight { owner, buffer, .. }) = rest {
                ended(Completion { owner, buffer: Some(buffer), result: Err(Failure::Silent) });
            }
        }
    }
}
