//! Two simple types of queue. A [`Lane`] passes a single buffer at a time to the device. In a [`Mailbox`], the device
//! writes a few short messages.
//!
//! After the set-up, the functions take no lock. So a panic may call them, even if it has stopped another CPU in the
//! middle of a call.
//! All words that are shared with the device are atomic, and no word that the device writes is used as an address. So
//! if the device writes a wrong value, data may be wrong or lost, but no other memory is accessed.

#![expect(unsafe_code, reason = "keeps references to memory that the device accesses, too")]

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};

use crate::memory::{Memory, Span, read_shared};
use crate::rings::{Rings, WRITABLE};
use crate::{Dma, Doorbell, OpenError, Transport};

/// The number of entries of a queue.
const SIZE: u16 = 8;
/// How much of the memory the rings take. The buffers follow.
const RINGS: usize = 256;
const _: () = assert!(Rings::bytes(SIZE as usize) <= RINGS);

/// Sets up the queue `number` of a device, with `pages` pages of memory that are never freed. Returns the rings, and
/// the rest of the memory for the buffers.
fn set_up<M: Dma>(
    transport: &mut impl Transport,
    number: u16,
    pages: usize,
) -> Result<(Rings, &'static [AtomicU8], Span), OpenError> {
    if transport.queue_entries(number) < SIZE {
        return Err(OpenError::Refused);
    }
    let mut data = Memory::allocate::<M>(pages)?;
    let rings = Rings::new(data.split_off(RINGS), SIZE.into());
    rings.set_up(transport, number)?;
    let bytes = data.bytes();
    // SAFETY: the memory is never freed, and only accessed by the result.
    Ok((rings, unsafe { data.atomics_for_ever(0, bytes) }, data.span(0, bytes)))
}

/// A queue that passes one buffer at a time to the device.
///
/// Only one caller at a time may fill the buffer and [`send`](Self::send) it. The callers ensure this by a lock of
/// their own. A panic does not take that lock, but stops all other CPUs. One of them may have been stopped in the
/// middle of `send`. So a panic first calls [`resume`](Self::resume), which completes that `send`.
pub struct Lane<D> {
    rings: Rings,
    buffer: &'static [AtomicU8],
    doorbell: D,
    /// How many buffers were ever sent, modulo 2^16.
    sent: AtomicU16,
    /// Whether the device is not notified, so that it never answers. Set by tests.
    is_mute: AtomicBool,
}

impl<D> fmt::Debug for Lane<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl<D: Doorbell> Lane<D> {
    /// Sets up the queue `number` of a device, which reads the buffer. The memory of the queue has `pages` pages. The
    /// device does not interrupt: see [`set_interrupts`](Self::set_interrupts).
    ///
    /// # Errors
    /// If the device refuses the queue, or there is no memory. The caller must then reset the device.
    pub fn sending<M: Dma>(
        transport: &mut impl Transport,
        number: u16,
        pages: usize,
        doorbell: D,
    ) -> Result<Self, OpenError> {
        let (rings, buffer, span) = set_up::<M>(transport, number, pages)?;
        // Each entry of the available ring is 0, which is the only descriptor in use.
        rings.descriptors[0].set(span, 0, 0);
        rings.set_interrupts(false);
        Ok(Self { rings, buffer, doorbell, sent: AtomicU16::new(0), is_mute: AtomicBool::new(false) })
    }

    /// Sets up the queue `number` of a device, which writes to the buffer, and interrupts when it has done that. The
    /// memory of the queue has one page.
    ///
    /// # Errors
    /// As for [`sending`](Self::sending).
    pub fn receiving<M: Dma>(transport: &mut impl Transport, number: u16, doorbell: D) -> Result<Self, OpenError> {
        let (rings, buffer, span) = set_up::<M>(transport, number, 1)?;
        rings.descriptors[0].set(span, WRITABLE, 0);
        Ok(Self { rings, buffer, doorbell, sent: AtomicU16::new(0), is_mute: AtomicBool::new(false) })
    }

    /// Returns the buffer. The caller may change it while [`is_idle`](Self::is_idle) returns `true`.
    pub fn buffer(&self) -> &[AtomicU8] {
        self.buffer
    }

    /// Returns how many buffers were ever sent, modulo 2^16.
    pub fn sent(&self) -> u16 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether the device has used every buffer that was sent.
    pub fn is_idle(&self) -> bool {
        self.rings.completed() == self.sent()
    }

    /// Returns the number of bytes that the device has written to the last buffer, as reported by the device. A broken
    /// device may report any number. Callable only while [`is_idle`](Self::is_idle) returns `true`, that is, while the
    /// device does not use the buffer.
    pub fn received(&self) -> usize {
        self.rings.used(self.sent().wrapping_sub(1)).1 as usize
    }

    /// Passes the first `bytes` bytes of the buffer to the device. Callable only while [`is_idle`](Self::is_idle)
    /// returns `true`, that is, while the device does not use the buffer.
    ///
    /// # Panics
    /// If the buffer is smaller.
    pub fn send(&self, bytes: usize) {
        assert!(bytes <= self.buffer.len(), "within the buffer");
        self.rings.descriptors[0].set_bytes(bytes);
        // Ordering: Release; partner: the load in `resume`. A panic that sees the new count also sees the buffer.
        self.sent.store(self.sent().wrapping_add(1), Ordering::Release);
        self.resume();
    }

    /// Makes the buffer that was sent last available, and notifies the device. Has no effect if both were done before.
    pub fn resume(&self) {
        self.rings.publish(self.sent.load(Ordering::Acquire));
        if !self.is_mute.load(Ordering::Relaxed) {
            self.doorbell.ring();
        }
    }

    /// Sets whether the device interrupts when it has used a buffer. After turning interrupts on, the caller must check
    /// [`is_idle`](Self::is_idle), because the device may have used the buffer just before.
    pub fn set_interrupts(&self, are_on: bool) {
        self.rings.set_interrupts(are_on);
    }

    /// Withholds all further notifications from the device. Tests use this. A device that is not notified never
    /// answers.
    pub fn mute(&self) {
        self.is_mute.store(true, Ordering::Relaxed);
    }
}

/// A queue in which the device writes short messages. It has room for 8 messages that were not read yet. A device
/// without room may drop a message. The device does not interrupt: the driver checks the queue when it has another
/// reason to run.
pub struct Mailbox<D> {
    rings: Rings,
    buffers: &'static [AtomicU8],
    doorbell: D,
    /// How many messages were read, modulo 2^16.
    read: AtomicU16,
    /// How many buffers were passed to the device, modulo 2^16.
    passed: AtomicU16,
}

impl<D> fmt::Debug for Mailbox<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("read", &self.read).finish_non_exhaustive()
    }
}

impl<D: Doorbell> Mailbox<D> {
    /// The number of bytes for each message.
    const BYTES: usize = 64;

    /// Sets up the queue `number` of a device.
    ///
    /// # Errors
    /// If the device refuses the queue, or there is no memory. The caller must then reset the device.
    pub fn new<M: Dma>(transport: &mut impl Transport, number: u16, doorbell: D) -> Result<Self, OpenError> {
        let (rings, buffers, Span { address, .. }) = set_up::<M>(transport, number, 1)?;
        for (index, descriptor) in (0..SIZE).zip(rings.descriptors) {
            let address = address + u64::from(index) * Self::BYTES as u64;
            descriptor.set(Span { address, bytes: Self::BYTES }, WRITABLE, 0);
            rings.set_available(index, index);
        }
        rings.set_interrupts(false);
        rings.publish(SIZE);
        Ok(Self { rings, buffers, doorbell, read: AtomicU16::new(0), passed: AtomicU16::new(SIZE) })
    }

    /// Returns the beginning of the next message, if the device has written one. Passes the buffer of the message to the
    /// device again. Only one caller at a time may call this.
    pub fn read<const N: usize>(&self) -> Option<[u8; N]> {
        const { assert!(N <= Self::BYTES) };
        let read = self.read.load(Ordering::Relaxed);
        if self.rings.completed() == read {
            return None;
        }
        self.read.store(read.wrapping_add(1), Ordering::Relaxed);
        // A broken device may have written any token.
        let token = u16::try_from(self.rings.used(read).0).ok().filter(|&token| token < SIZE)?;
        let bytes = self.buffers[usize::from(token) * Self::BYTES..].first_chunk::<N>()?;
        let message = bytes.each_ref().map(|byte| read_shared(byte, |byte| byte.load(Ordering::Relaxed)));
        // The message was read before the device overwrites it, because `publish` is a Release store.
        let passed = self.passed.load(Ordering::Relaxed);
        self.rings.set_available(passed, token);
        self.passed.store(passed.wrapping_add(1), Ordering::Relaxed);
        self.rings.publish(passed.wrapping_add(1));
        self.doorbell.ring();
        Some(message)
    }
}
