//! The operations on a channel under its lock. See [`perform`](super::perform) for the operations that take the lock.
//!
//! If a receiver waits, or if a sender waits and the channel has no buffer, a value moves directly from the sender to
//! the receiver. Otherwise the value moves through the buffer. The value slot of a parked G is on its stack; the
//! address of the slot is in the G's waiter. (Go: `sendDirect`, `recvDirect`.)
//!
//! No G is readied while the lock is held. Instead an [`Attempt`] contains the G to ready, and the caller readies this
//! G after the unlock.

use core::mem::ManuallyDrop;
use core::ptr;

use super::header::{Header, Held, Word};
use super::ring::Ring;
use crate::base::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::error::OutOfResources;
use crate::entities::bubble::BubbleRef;
use crate::entities::goroutine::Goroutine;
use crate::platform::Platform;

/// A channel with its values. Go: `hchan`.
// `repr(C)` puts the header first, so that the address of a channel equals the address of its header. A select relies
// on the equality of these addresses.
#[repr(C)]
pub(crate) struct Channel<T, Plat: Platform> {
    pub(crate) header: Header<Plat>,
    ring: Ring<T>,
    /// Number of handles of each side; see `handle`.
    pub(super) sender_count: AtomicUsize,
    pub(super) receiver_count: AtomicUsize,
    /// Whether all handles of one side have been dropped.
    pub(super) is_half_gone: AtomicBool,
}

// SAFETY: through a reference to a channel, a G sends values of type `T` to other Gs and receives values from them,
// hence `T: Send`. The ring is used, and the wait queues are changed, only under the lock. All other fields are atomic
// or never change.
unsafe impl<T: Send, Plat: Platform> Sync for Channel<T, Plat> {}

/// The result of a send or receive under the lock.
#[derive(Debug)]
pub(crate) enum Attempt<Plat: Platform> {
    /// The value has moved. If a G waited on the other side, it must be readied after the lock is released.
    Moved(Option<&'static Goroutine<Plat>>),
    /// The channel is closed, or the caller is outside of the channel's bubble ([`Header::check_closed`] distinguishes
    /// the two). No value has moved.
    Closed,
    /// No G waits on the other side, and the buffer has no room (for a send) or no value (for a receive).
    NotReady,
}

/// The [`Waiter::outcome`](crate::entities::waiter::Waiter::outcome) of a waiter whose value has moved. Closing the
/// channel leaves the outcome at zero.
pub(crate) const MOVED: usize = 1;

impl<T, Plat: Platform> Channel<T, Plat> {
    /// Makes a channel with a handle count of one for each side.
    pub(crate) fn new(capacity: usize, bubble: BubbleRef<Plat>) -> Result<Self, OutOfResources> {
        if capacity > Header::<Plat>::CAPACITY_LIMIT {
            return Err(OutOfResources);
        }
        Self::with_header(Header::new(capacity, bubble), false)
    }

    /// Makes a channel that has a handle of one side only. The channel is open, although the other side has no handle.
    pub(super) fn never() -> Result<Self, OutOfResources> {
        Self::with_header(Header::never(), true)
    }

    fn with_header(header: Header<Plat>, is_half_gone: bool) -> Result<Self, OutOfResources> {
        Ok(Self {
            ring: Ring::new(header.capacity)?,
            header,
            sender_count: AtomicUsize::new(1),
            receiver_count: AtomicUsize::new(1),
            is_half_gone: AtomicBool::new(is_half_gone),
        })
    }
}

/// The operations whose caller holds the lock.
impl<T, Plat: Platform> Channel<T, Plat> {
    /// Moves the value at `from` to a waiting receiver or into the buffer. Go: `chansend`.
    ///
    /// # Safety
    ///
    /// `from` points to a value that the caller owns. The value is moved out if the result is [`Attempt::Moved`].
    #[inline(always)]
    pub(crate) unsafe fn offer(&self, held: &Held<'_, Plat>, from: *const T) -> Attempt<Plat> {
        let word = self.header.word();
        // Most channels are not restricted. For them the word is the length, which saves an instruction.
        let length = match word.is_restricted() {
            false => word.plain_length(),
            true if self.header.refuses() => return Attempt::Closed,
            true => word.length(),
        };
        // SAFETY: the caller owns the value at `from`, which is all that the called function requires.
        unsafe { self.offer_to_open(held, from, length) }
    }

    /// Does what [`offer`](Self::offer) does, for a channel that is open and that the calling G may use. `length` is
    /// the number of values in the buffer.
    #[inline(always)]
    unsafe fn offer_to_open(&self, held: &Held<'_, Plat>, from: *const T, length: usize) -> Attempt<Plat> {
        debug_assert!(held.is_of(&self.header));
        // ANCHOR: offer
        // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
        if let Some(goroutine) = unsafe { self.move_to_receiver(from) } {
            return Attempt::Moved(Some(goroutine));
        }
        if length < self.header.capacity {
            // SAFETY: the lock is held, the ring has room, and the caller owns the value.
            unsafe { self.ring.push(from) };
            held.change_len(1);
            return Attempt::Moved(None);
        }
        Attempt::NotReady
        // ANCHOR_END: offer
    }

    /// Moves the value at `from` to a waiting receiver, if there is one. Returns the receiver's G, which the caller
    /// must ready after the lock is released.
    ///
    /// # Safety
    ///
    /// The lock is held. `from` points to a value that the caller owns. The value is moved out if a G is returned.
    #[inline(always)]
    unsafe fn move_to_receiver(&self, from: *const T) -> Option<&'static Goroutine<Plat>> {
        // ANCHOR: move_to_receiver
        let (receiver, goroutine) = self.header.receivers.pop_with_goroutine()?;
        let slot = receiver.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: `slot` is the address of an uninitialised variable for a `T`. The variable belongs to the waiting
        // receiver, and is valid until the receiver's G is readied, which happens only after this copy.
        // `pop_with_goroutine` has ended the wait, so no other G writes to the variable. `from` points to a value
        // that the caller owns.
        unsafe { ptr::copy_nonoverlapping(from, slot, 1) };
        receiver.outcome.store(MOVED, Ordering::Relaxed);
        Some(goroutine)
        // ANCHOR_END: move_to_receiver
    }

    /// Moves the oldest value to `to`. If the channel has a buffer and a sender waits, the sender's value moves into
    /// the entry that becomes free. Go: `chanrecv`, `recv`.
    ///
    /// # Safety
    ///
    /// `to` is uninitialised and writable. It is initialised if the result is [`Attempt::Moved`].
    #[inline(always)]
    pub(crate) unsafe fn take(&self, held: &Held<'_, Plat>, to: *mut T) -> Attempt<Plat> {
        debug_assert!(held.is_of(&self.header));
        let word = self.header.word();
        if word.is_zero() {
            // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
            return unsafe { self.take_from_sender(to) };
        }
        if word.is_restricted() {
            // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
            return unsafe { self.take_restricted(to, word) };
        }
        // SAFETY: the caller upholds this function's contract, and the called function has the same contract. In
        // addition, there is a value in the buffer.
        unsafe { self.take_from_buffer(held, to) }
    }

    /// Takes the value of a waiting sender, for a channel whose buffer is empty. This is a part of
    /// [`take`](Self::take).
    #[inline(always)]
    unsafe fn take_from_sender(&self, to: *mut T) -> Attempt<Plat> {
        // ANCHOR: take_from_sender
        let Some((sender, goroutine)) = self.header.senders.pop_with_goroutine() else { return Attempt::NotReady };
        let slot = sender.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: `slot` is the address of the value of the waiting sender. `pop_with_goroutine` has ended the wait of
        // the sender, so this function may move the value. `to` is uninitialised.
        unsafe { ptr::copy_nonoverlapping(slot, to, 1) };
        sender.outcome.store(MOVED, Ordering::Relaxed);
        Attempt::Moved(Some(goroutine))
        // ANCHOR_END: take_from_sender
    }

    /// Does what [`take`](Self::take) does, for a channel that is closed, was made in a bubble, or belongs to a dormant
    /// timer.
    #[cold]
    #[inline(never)]
    unsafe fn take_restricted(&self, to: *mut T, word: Word) -> Attempt<Plat> {
        let word = if word.is_dormant() { self.header.settle_timer() } else { word };
        if word.length() > 0 {
            // Makes a second guard, because taking the address of the caller's guard would force that guard into memory
            // on the fast path.
            let held = ManuallyDrop::new(self.header.assume_locked());
            // SAFETY: the caller upholds this function's contract, and the called function has the same contract. In
            // addition, there is a value in the buffer.
            return unsafe { self.take_from_buffer(&held, to) };
        }
        // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
        match unsafe { self.take_from_sender(to) } {
            Attempt::NotReady if self.header.refuses() => Attempt::Closed,
            attempt => attempt,
        }
    }

    /// Does what [`take`](Self::take) does, for a channel with values in the buffer.
    #[inline(always)]
    unsafe fn take_from_buffer(&self, held: &Held<'_, Plat>, to: *mut T) -> Attempt<Plat> {
        // ANCHOR: take_from_buffer
        // SAFETY: the lock is held and the ring is not empty; `to` is uninitialised.
        unsafe { self.ring.pop(to) };
        let Some((sender, goroutine)) = self.header.senders.pop_with_goroutine() else {
            held.change_len(-1);
            return Attempt::Moved(None);
        };
        let slot = sender.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: the lock is held and an entry has just become free. `slot` is the address of the value of the waiting
        // sender. `pop_with_goroutine` has ended the wait of the sender, so this function may move the value.
        unsafe { self.ring.push(slot) };
        sender.outcome.store(MOVED, Ordering::Relaxed);
        Attempt::Moved(Some(goroutine))
        // ANCHOR_END: take_from_buffer
    }

    /// Sends `value` to a waiting receiver, if there is one, and drops it otherwise. Returns the receiver's G, which
    /// the caller must ready after the lock is released.
    pub(crate) fn send_to_receiver(&self, held: &Held<'_, Plat>, value: T) -> Option<&'static Goroutine<Plat>>
    where
        T: Copy,
    {
        debug_assert!(held.is_of(&self.header));
        // SAFETY: the lock is held. This function owns the value, and a `Copy` type may be copied or forgotten.
        unsafe { self.move_to_receiver(&raw const value) }
    }

    /// Puts `value` into the empty buffer of a channel for which no receiver waits.
    pub(crate) fn fill(&self, held: &Held<'_, Plat>, value: T)
    where
        T: Copy,
    {
        debug_assert!(self.header.receivers.is_empty() && self.header.len() == 0);
        // SAFETY: this function owns the value, and a `Copy` type may be copied or forgotten.
        let attempt = unsafe { self.offer_to_open(held, &raw const value, 0) };
        debug_assert!(matches!(attempt, Attempt::Moved(None)));
    }
}
