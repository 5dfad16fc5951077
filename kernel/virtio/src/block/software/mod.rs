//! A virtio block device in software. Its content is memory. The device answers each request after a time that a
//! [model of a disk](Latency) determines. The driver uses it like any other device, through the same queues.
//!
//! The owner of the device calls its functions at the right times. When the driver notifies the device of a queue:
//!
//! ```text
//! take a request ▶ transfer its data, part by part ▶ finish ──▶ the request is pending until it is due
//! ```
//!
//! Later, when the first pending request is due, [`SoftwareDevice::complete`] passes the request back to the driver,
//! and the owner raises the interrupt. So the data is copied when the request is submitted, and only the answer is
//! late. A driver may not access the data in between.
//!
//! The owner keeps the device under a lock. The lock is released between two parts, so that a long transfer does not
//! keep others waiting. Each part consists of whole sectors, so each sector is read and written as a whole.
//!
//! For tests of the driver, the device can commit [`Faults`].

mod faults;
mod latency;
mod random;
mod transport;

use alloc::vec::Vec;
use core::fmt;

pub use self::faults::{Fault, Faults};
pub use self::latency::Latency;
pub use self::transport::{Access, Connection};
use super::protocol::HEADER_BYTES;
use super::{MAX_BUFFERS, MAX_QUEUES, SECTOR_SIZE};
use crate::Dma;
use crate::device_queue::{Chain, DeviceQueue};

/// The largest number of bytes that are copied while the device is locked. It is a multiple of the sector size.
const PART_BYTES: usize = 8 * SECTOR_SIZE;

/// The largest number of entries of a queue. The driver may choose fewer.
const ENTRIES: u16 = 256;

/// A number that is never that of a request, because no queue has so many entries.
const NO_REQUEST: u32 = u32::MAX;

/// Values of the status byte (virtio 1.2, 5.2.6).
const OK: u8 = 0;
const ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// A virtio block device in software.
pub struct SoftwareDevice<M> {
    content: &'static mut [u8],
    is_read_only: bool,
    latency: Latency,
    faults: Faults,
    status: u8,
    /// The queues that the driver has set up.
    queues: [Option<DeviceQueue<M>>; MAX_QUEUES],
    /// The number of resets. A request that was taken before a reset is not completed after it.
    resets: u64,
    /// At most [`MAX_BUFFERS`] requests. The vector is allocated once. An array in the device would be copied from one
    /// stack frame to the next when the device is made.
    pending: Vec<Pending>,
}

/// A request whose data has been transferred, and whose answer is due later.
#[derive(Clone, Copy, Debug)]
struct Pending {
    due: u64,
    timer: usize,
    queue: u16,
    head: u16,
    written: u32,
    fault: Option<Fault>,
}

/// A request that the device has taken from a queue, and that is not finished.
#[derive(Debug)]
pub struct Work {
    pending: Pending,
    resets: u64,
    kind: Kind,
    /// The offset of the request's first byte in the content of the device.
    start: usize,
    bytes: usize,
    done: usize,
    status: u8,
    readable: Chain,
    writable: Chain,
}

/// What happens with the content of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Write,
    Discard,
    /// Nothing: a flush, or a request that fails.
    Nothing,
}

impl<M> fmt::Debug for SoftwareDevice<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftwareDevice").field("bytes", &self.content.len()).finish_non_exhaustive()
    }
}

impl<M: Dma> SoftwareDevice<M> {
    /// Makes a device with this content. If the length is not a multiple of the sector size, the rest is not
    /// accessible.
    #[must_use]
    pub fn new(content: &'static mut [u8], is_read_only: bool, latency: Latency, faults: Faults) -> Self {
        Self {
            content,
            is_read_only,
            latency,
            faults,
            status: 0,
            queues: [const { None }; MAX_QUEUES],
            resets: 0,
            pending: Vec::with_capacity(MAX_BUFFERS),
        }
    }

    /// Takes the next request from a queue. The time until its answer is due begins at `now`. Returns `None` if no request
    /// is available, or the driver has not set the queue up. Drops requests whose descriptors are malformed or have no
    /// room for the header or the status, and requests with the fault [`Fault::Lost`].
    pub fn take(&mut self, queue: u16, now: u64) -> Option<Work> {
        loop {
            let rings = self.queues.get_mut(usize::from(queue))?.as_mut()?;
            let head = rings.take()?;
            let Some([readable, writable]) = rings.chains(head) else { continue };
            if readable.bytes() < HEADER_BYTES || writable.bytes() == 0 {
                continue;
            }
            let fault = self.faults.next();
            if fault == Some(Fault::Lost) {
                continue;
            }
            let pending = Pending { due: 0, timer: 0, queue, head, written: 0, fault };
            return Some(self.work(now, pending, readable, writable));
        }
    }

    fn work(&mut self, now: u64, pending: Pending, readable: Chain, writable: Chain) -> Work {
        let number = |offset| {
            let mut bytes = [0; 8];
            readable.read(offset, &mut bytes);
            u64::from_le_bytes(bytes)
        };
        let (written, read) = (writable.bytes() - 1, readable.bytes() - HEADER_BYTES);
        // The lower half of the first word is the type of the request. The second word is the sector.
        let (kind, sector, bytes) = match number(0) as u32 {
            0 => (Kind::Read, number(8), written),
            1 => (Kind::Write, number(8), read),
            11 => (Kind::Discard, number(HEADER_BYTES), (number(HEADER_BYTES + 8) as u32 as usize) * SECTOR_SIZE),
            4 => (Kind::Nothing, 0, 0),
            _ => (Kind::Nothing, 0, usize::MAX),
        };
        let range = usize::try_from(sector).ok().and_then(|sector| sector.checked_mul(SECTOR_SIZE));
        let range = range.filter(|start| start.checked_add(bytes).is_some_and(|end| end <= self.content.len()));
        let is_refused = self.is_read_only && matches!(kind, Kind::Write | Kind::Discard);
        let (kind, status) = match (kind, range) {
            _ if pending.fault == Some(Fault::Error) => (Kind::Nothing, ERROR),
            (Kind::Nothing, None) => (Kind::Nothing, UNSUPPORTED),
            (_, None) => (Kind::Nothing, ERROR),
            _ if is_refused => (Kind::Nothing, ERROR),
            (kind, Some(_)) => (kind, OK),
        };
        let transferred = if kind == Kind::Nothing { 0 } else { bytes };
        // A discard moves no data.
        let moved = if kind == Kind::Discard { 0 } else { transferred };
        let written = if pending.fault == Some(Fault::Short) { 0 } else { writable.bytes() as u32 };
        let pending = Pending { due: self.latency.accept(now, moved), written, ..pending };
        let start = range.unwrap_or(0);
        Work { pending, resets: self.resets, kind, start, bytes: transferred, done: 0, status, readable, writable }
    }

    /// Transfers the next part of the data of a request. Returns `false` if no part was left, or the device has been
    /// reset.
    pub fn transfer(&mut self, work: &mut Work) -> bool {
        let part = PART_BYTES.min(work.bytes - work.done);
        // After a reset, the driver may use the memory of the request for something else.
        if part == 0 || work.resets != self.resets {
            return false;
        }
        let start = work.start + work.done;
        let content = &mut self.content[start..start + part];
        match work.kind {
            Kind::Read => work.writable.write(work.done, content),
            Kind::Write => work.readable.read(HEADER_BYTES + work.done, content),
            Kind::Discard => content.fill(0),
            Kind::Nothing => {}
        }
        work.done += part;
        true
    }

    /// Writes the status of a request whose data has been transferred, and makes the request pending. Returns the time at
    /// which the answer is due, and at which the timer with the number `timer` must fire. Returns `None` if the device has
    /// been reset.
    pub fn finish(&mut self, work: Work, timer: usize) -> Option<u64> {
        if work.resets != self.resets {
            return None;
        }
        work.writable.write(work.writable.bytes() - 1, &[work.status]);
        // There is room: the driver has at most `MAX_BUFFERS` buffers, so no more requests are in flight.
        if self.pending.len() < MAX_BUFFERS {
            self.pending.push(Pending { timer, ..work.pending });
        }
        Some(work.pending.due)
    }

    /// Completes the pending request that is due first, if it is due at `now`. Returns the queue in which the driver
    /// finds the answer, or `None` if no request is due.
    pub fn complete(&mut self, now: u64) -> Option<u16> {
        let earliest = (0..self.pending.len()).min_by_key(|&index| self.pending[index].due)?;
        if self.pending[earliest].due > now {
            return None;
        }
        // The other requests keep their order, so that requests which are due at the same time are completed in the
        // order in which they were finished.
        let Pending { queue, head, written, fault, .. } = self.pending.remove(earliest);
        let rings = self.queues[usize::from(queue)].as_mut()?;
        rings.complete(if fault == Some(Fault::WrongId) { NO_REQUEST } else { head.into() }, written);
        if fault == Some(Fault::Twice) {
            rings.complete(head.into(), written);
        }
        Some(queue)
    }

    /// Returns the time at which the first of the pending requests of `timer` is due, or `None` if this timer has none.
    #[must_use]
    pub fn next_due(&self, timer: usize) -> Option<u64> {
        self.pending.iter().filter(|pending| pending.timer == timer).map(|pending| pending.due).min()
    }
}
