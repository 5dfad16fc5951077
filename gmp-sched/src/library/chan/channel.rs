//! The operations on a channel under its lock, and the parking of Gs that have to wait.
//!
//! If a receiver waits, or if a sender waits and the channel has no buffer, a value moves directly from the sender to
//! the receiver. Otherwise the value moves through the buffer. The value slot of a parked G is on its stack; the
//! address of the slot is in the G's waiter. (Go: `sendDirect`, `recvDirect`.)
//!
//! No G is readied while the lock is held. Instead an [`Attempt`] contains the G to ready, and the caller readies this
//! G after the unlock.

use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr;

use super::error::{RecvTimeoutError, SendTimeoutError};
use super::header::{Header, Held, RECEIVE_ON, SEND_ON, Side, Word};
use super::ring::Ring;
use super::unsent::Unsent;
use crate::base::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::error::OutOfResources;
use crate::engine::current::CurrentGoroutine;
use crate::engine::park::{park_with, ready_pinned};
use crate::engine::preempt::before_wait;
use crate::engine::windows::{At, Window};
use crate::entities::bubble::BubbleRef;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::wait_reason::WaitFor;
use crate::library::limit::{ContextError, Limit};
use crate::library::waiter::wait_until;
use crate::platform::{Pinned, Platform};

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

/// Why a wait ended without moving a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unmoved {
    Closed,
    Ended(ContextError),
}

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
        if word.is_restricted() && self.header.refuses() {
            return Attempt::Closed;
        }
        // SAFETY: the caller owns the value at `from`, which is all that the called function requires.
        unsafe { self.offer_to_open(held, from, word, word.length()) }
    }

    /// Does what [`offer`](Self::offer) does, for a channel that is open and that the calling G may use. `length` is
    /// the number of values in the buffer.
    #[inline(always)]
    unsafe fn offer_to_open(&self, held: &Held<'_, Plat>, from: *const T, word: Word, length: usize) -> Attempt<Plat> {
        debug_assert!(held.is_of(&self.header));
        // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
        if let Some(goroutine) = unsafe { self.move_to_receiver(from) } {
            return Attempt::Moved(Some(goroutine));
        }
        if length < self.header.capacity {
            // SAFETY: the lock is held, the ring has room, and the caller owns the value.
            unsafe { self.ring.push(from) };
            held.set_len(word, 1);
            return Attempt::Moved(None);
        }
        Attempt::NotReady
    }

    /// Moves the value at `from` to a waiting receiver, if there is one. Returns the receiver's G, which the caller
    /// must ready after the lock is released.
    ///
    /// # Safety
    ///
    /// The lock is held. `from` points to a value that the caller owns. The value is moved out if a G is returned.
    #[inline(always)]
    unsafe fn move_to_receiver(&self, from: *const T) -> Option<&'static Goroutine<Plat>> {
        let (receiver, goroutine) = self.header.receivers.pop_with_goroutine()?;
        let slot = receiver.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: `slot` is the address of an uninitialised variable for a `T`. The variable belongs to the waiting
        // receiver, and is valid until the receiver's G is readied, which happens only after this copy.
        // `pop_with_goroutine` has ended the wait, so no other G writes to the variable. `from` points to a value
        // that the caller owns.
        unsafe { ptr::copy_nonoverlapping(from, slot, 1) };
        receiver.outcome.store(MOVED, Ordering::Relaxed);
        Some(goroutine)
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
        unsafe { self.take_from_buffer(held, to, word) }
    }

    /// Takes the value of a waiting sender, for a channel whose buffer is empty. This is a part of
    /// [`take`](Self::take).
    #[inline(always)]
    unsafe fn take_from_sender(&self, to: *mut T) -> Attempt<Plat> {
        let Some((sender, goroutine)) = self.header.senders.pop_with_goroutine() else { return Attempt::NotReady };
        let slot = sender.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: `slot` is the address of the value of the waiting sender. `pop_with_goroutine` has ended the wait of
        // the sender, so this function may move the value. `to` is uninitialised.
        unsafe { ptr::copy_nonoverlapping(slot, to, 1) };
        sender.outcome.store(MOVED, Ordering::Relaxed);
        Attempt::Moved(Some(goroutine))
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
            return unsafe { self.take_from_buffer(&held, to, word) };
        }
        // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
        match unsafe { self.take_from_sender(to) } {
            Attempt::NotReady if self.header.refuses() => Attempt::Closed,
            attempt => attempt,
        }
    }

    /// Does what [`take`](Self::take) does, for a channel with values in the buffer.
    #[inline(always)]
    unsafe fn take_from_buffer(&self, held: &Held<'_, Plat>, to: *mut T, word: Word) -> Attempt<Plat> {
        // SAFETY: the lock is held and the ring is not empty; `to` is uninitialised.
        unsafe { self.ring.pop(to) };
        let Some((sender, goroutine)) = self.header.senders.pop_with_goroutine() else {
            held.set_len(word, -1);
            return Attempt::Moved(None);
        };
        let slot = sender.slot.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: the lock is held and an entry has just become free. `slot` is the address of the value of the waiting
        // sender. `pop_with_goroutine` has ended the wait of the sender, so this function may move the value.
        unsafe { self.ring.push(slot) };
        sender.outcome.store(MOVED, Ordering::Relaxed);
        Attempt::Moved(Some(goroutine))
    }
}

/// The operations that take the lock. Some of them may park.
impl<T, Plat: Platform> Channel<T, Plat> {
    /// Sends `value`, waiting if necessary. Returns the value as the error if the channel is closed.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn send(&self, value: T) -> Result<(), T> {
        before_wait::<Plat>();
        let value = Unsent::new(value);
        let pinned = Pinned::of_scheduler();
        let held = self.header.lock(&pinned);
        let word = self.header.word();
        if word.is_restricted() {
            return self.send_restricted(pinned, held, value);
        }
        // SAFETY: this function owns the value, and does not use it after it has moved.
        match unsafe { self.offer_to_open(&held, value.as_ptr(), word, word.plain_length()) } {
            Attempt::Moved(receiver) => {
                value.moved();
                unlock_and_ready(&pinned, held, receiver);
                return Ok(());
            }
            Attempt::Closed => {}
            Attempt::NotReady if self.park(pinned, held, Side::Send, value.as_ptr().cast_mut()) => {
                value.moved();
                return Ok(());
            }
            Attempt::NotReady => {}
        }
        Err(value.into_inner())
    }

    /// Does what [`send`](Self::send) does, for a channel that is closed or was made in a bubble. Outlined, to keep the
    /// fast path small.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn send_restricted(&self, pinned: Pinned<Plat>, held: Held<'_, Plat>, value: Unsent<T>) -> Result<(), T> {
        // SAFETY: this function owns the value, and does not use it after it has moved.
        match unsafe { self.offer(&held, value.as_ptr()) } {
            Attempt::Moved(receiver) => {
                value.moved();
                unlock_and_ready(&pinned, held, receiver);
                return Ok(());
            }
            Attempt::Closed => self.header.refused(pinned, held, SEND_ON),
            Attempt::NotReady if self.park(pinned, held, Side::Send, value.as_ptr().cast_mut()) => {
                value.moved();
                return Ok(());
            }
            Attempt::NotReady => {}
        }
        Err(value.into_inner())
    }

    /// Sends `value` if no wait is needed. The error holds the value, and `true` for [`Attempt::Closed`] or `false` if
    /// the send would have to wait.
    #[inline]
    pub(super) fn try_send(&self, value: T) -> Result<(), (T, bool)> {
        if !self.header.looks_ready(Side::Send) {
            return Err((value, false));
        }
        let value = Unsent::new(value);
        let pinned = Pinned::of_scheduler();
        let held = self.header.lock(&pinned);
        // SAFETY: this function owns the value, and does not use it after it has moved.
        let attempt = unsafe { self.offer(&held, value.as_ptr()) };
        if let Attempt::Moved(receiver) = attempt {
            value.moved();
            unlock_and_ready(&pinned, held, receiver);
            return Ok(());
        }
        Err((value.into_inner(), matches!(attempt, Attempt::Closed)))
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
        let word = self.header.word();
        // SAFETY: this function owns the value, and a `Copy` type may be copied or forgotten.
        let attempt = unsafe { self.offer_to_open(held, &raw const value, word, word.length()) };
        debug_assert!(matches!(attempt, Attempt::Moved(None)));
    }

    /// Receives a value or, if the receive would have to wait, queues `waiter` as a receiver.
    #[cfg(gmp_loom)]
    pub(crate) fn recv_or_queue(&self, waiter: &'static crate::entities::waiter::Waiter<Plat>) -> Option<T> {
        let mut slot = MaybeUninit::<T>::uninit();
        let pinned = Pinned::of_scheduler();
        let held = self.header.lock(&pinned);
        // SAFETY: `slot` is an uninitialised local variable.
        if let Attempt::Moved(sender) = unsafe { self.take(&held, slot.as_mut_ptr()) } {
            unlock_and_ready(&pinned, held, sender);
            // SAFETY: a value has moved into `slot`.
            return Some(unsafe { slot.assume_init() });
        }
        self.header.queue(Side::Receive).push_back(waiter);
        None
    }

    /// Sends `value`. Returns an error if the channel is closed, or if the send must wait and `limit` is over first.
    #[track_caller]
    pub(super) fn send_until(&self, value: T, limit: Limit<'_, Plat>) -> Result<(), SendTimeoutError<T>> {
        before_wait::<Plat>();
        let value = Unsent::new(value);
        let pinned = Pinned::of_scheduler();
        let held = self.header.lock(&pinned);
        // SAFETY: this function owns the value, and does not use it after it has moved.
        let ended = match unsafe { self.offer(&held, value.as_ptr()) } {
            Attempt::Moved(receiver) => {
                value.moved();
                unlock_and_ready(&pinned, held, receiver);
                return Ok(());
            }
            Attempt::NotReady => self.wait_until(pinned, held, Side::Send, value.as_ptr().cast_mut(), limit),
            Attempt::Closed => Err(Unmoved::Closed),
        };
        match ended {
            Ok(()) => {
                value.moved();
                Ok(())
            }
            Err(Unmoved::Closed) => Err(SendTimeoutError::Closed(value.into_inner())),
            Err(Unmoved::Ended(ContextError::DeadlineExceeded)) => Err(SendTimeoutError::Timeout(value.into_inner())),
            Err(Unmoved::Ended(ContextError::Canceled)) => Err(SendTimeoutError::Canceled(value.into_inner())),
        }
    }

    /// Receives a value; `None` if the channel is closed and drained.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn recv(&self) -> Option<T> {
        before_wait::<Plat>();
        let mut slot = MaybeUninit::<T>::uninit();
        let pinned = Pinned::of_scheduler();
        let held = self.header.lock(&pinned);
        // SAFETY: `slot` is an uninitialised local variable.
        match unsafe { self.take(&held, slot.as_mut_ptr()) } {
            Attempt::Moved(sender) => unlock_and_ready(&pinned, held, sender),
            Attempt::Closed => {
                self.header.refused(pinned, held, RECEIVE_ON);
                return None;
            }
            Attempt::NotReady => {
                if !self.park(pinned, held, Side::Receive, slot.as_mut_ptr()) {
                    return None;
                }
            }
        }
        // SAFETY: a value has moved into `slot`.
        Some(unsafe { slot.assume_init() })
    }

    /// Receives a value if there is one. The error is `true` for [`Attempt::Closed`], and `false` if the receive would
    /// have to wait.
    #[inline]
    pub(crate) fn try_recv(&self) -> Result<T, bool> {
        if self.header.looks_ready(Side::Receive) { self.recv_now() } else { Err(false) }
    }

    /// Like [`try_recv`](Self::try_recv), but takes the lock without checking first whether there is a value.
    #[inline(always)]
    pub(crate) fn recv_now(&self) -> Result<T, bool> {
        let mut slot = MaybeUninit::<T>::uninit();
        let pinned = Pinned::of_scheduler();
        let held = self.header.lock(&pinned);
        // SAFETY: `slot` is an uninitialised local variable.
        let attempt = unsafe { self.take(&held, slot.as_mut_ptr()) };
        let Attempt::Moved(sender) = attempt else { return Err(matches!(attempt, Attempt::Closed)) };
        unlock_and_ready(&pinned, held, sender);
        // SAFETY: a value has moved into `slot`.
        Ok(unsafe { slot.assume_init() })
    }

    /// Receives a value. Returns an error if the channel is closed and drained, or if the receive must wait and `limit`
    /// is over first.
    #[track_caller]
    pub(crate) fn recv_until(&self, limit: Limit<'_, Plat>) -> Result<T, RecvTimeoutError> {
        before_wait::<Plat>();
        let mut slot = MaybeUninit::<T>::uninit();
        let pinned = Pinned::of_scheduler();
        let held = self.header.lock(&pinned);
        // SAFETY: `slot` is an uninitialised local variable.
        let ended = match unsafe { self.take(&held, slot.as_mut_ptr()) } {
            Attempt::Moved(sender) => {
                unlock_and_ready(&pinned, held, sender);
                Ok(())
            }
            Attempt::NotReady => self.wait_until(pinned, held, Side::Receive, slot.as_mut_ptr(), limit),
            Attempt::Closed => Err(Unmoved::Closed),
        };
        match ended {
            // SAFETY: a value has moved into `slot`.
            Ok(()) => Ok(unsafe { slot.assume_init() }),
            Err(Unmoved::Closed) => Err(RecvTimeoutError::Closed),
            Err(Unmoved::Ended(ContextError::DeadlineExceeded)) => Err(RecvTimeoutError::Timeout),
            Err(Unmoved::Ended(ContextError::Canceled)) => Err(RecvTimeoutError::Canceled),
        }
    }

    /// Parks until another G moves the value from or to `slot` or closes the channel. Returns whether the value moved.
    #[inline(always)]
    #[track_caller]
    fn park(&self, pinned: Pinned<Plat>, held: Held<'_, Plat>, side: Side, slot: *mut T) -> bool {
        let (caller, held) = CurrentGoroutine::holding(pinned, held);
        let me = caller.me;
        let window = Window::<Plat>::open(At::ChannelQueue);
        me.waiter.prepare(me, WaitGeneration::SOLE, slot.cast());
        self.header.queue(side).push_back(&me.waiter);
        let wait_for = WaitFor::new(self.header.wait_reason(side), &self.header);
        drop(park_with(caller, wait_for, |_, _| {
            drop(held);
            true
        }));
        window.close();
        me.waiter.outcome.load(Ordering::Relaxed) == MOVED
    }

    /// Parks like [`park`](Self::park), but no longer than until `limit` is over, and not at all if `limit` is over
    /// already. The error says why no value has moved.
    #[track_caller]
    fn wait_until(
        &self,
        pinned: Pinned<Plat>,
        held: Held<'_, Plat>,
        side: Side,
        slot: *mut T,
        limit: Limit<'_, Plat>,
    ) -> Result<(), Unmoved> {
        if let Some(error) = limit.err() {
            return Err(Unmoved::Ended(error));
        }
        let (caller, held) = CurrentGoroutine::holding(pinned, held);
        let me = caller.me;
        let window = Window::<Plat>::open(At::ChannelQueue);
        let generation = me.open_wait();
        me.waiter.prepare(me, generation, slot.cast());
        self.header.queue(side).push_back(&me.waiter);
        let wait_for = WaitFor::new(self.header.wait_reason(side), &self.header);
        let waker = wait_until(caller, wait_for, generation, limit, || drop(held));
        window.close();
        if waker.is_none() {
            // The timer or the context claimed the wait generation, so no other G accesses `slot` any more.
            let pinned = Pinned::of_scheduler();
            self.header.lock(&pinned).remove(side, &me.waiter);
            return Err(Unmoved::Ended(limit.ended()));
        }
        if me.waiter.outcome.load(Ordering::Relaxed) == MOVED { Ok(()) } else { Err(Unmoved::Closed) }
    }

    /// Closes the channel and readies all waiters; returns whether it was open. Go: `closechan`.
    pub(crate) fn close(&self) -> bool {
        let pinned = Pinned::of_scheduler();
        let Some([senders, receivers]) = self.header.lock(&pinned).close() else { return false };
        senders.ready_all(&pinned);
        receivers.ready_all(&pinned);
        true
    }

    /// Drops the values in the buffer of a closed channel one by one. The lock is not held while a value is dropped.
    #[inline(always)]
    pub(super) fn drain(&self) {
        if self.header.len() != 0 {
            self.drain_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn drain_all(&self) {
        while self.header.len() != 0 && self.try_recv().is_ok() {}
    }
}

/// Releases the lock, and then readies the G that waited on the other side, if any. The calling G continues to run.
#[inline(always)]
pub(crate) fn unlock_and_ready<Plat: Platform>(
    pinned: &Pinned<Plat>,
    held: Held<'_, Plat>,
    waiting: Option<&'static Goroutine<Plat>>,
) {
    let window = Window::<Plat>::open(At::Wakeup);
    drop(held);
    if let Some(goroutine) = waiting {
        ready_pinned(pinned, goroutine);
    }
    window.close();
}
