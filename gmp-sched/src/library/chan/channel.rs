//! What is done with a channel under its lock, and the parking around it.
//!
//! A value moves once: from the sender's place to the receiver's if one waits for the other, else into the buffer and
//! later out of it. Places of Gs that wait lie on their stacks; their addresses are in their waiters. (Go: `sendDirect`,
//! `recvDirect`.)
//!
//! No G is readied while the lock is held: an [`Attempt`] gives the waiter to be readied afterwards.

use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr;

use super::error::{RecvTimeoutError, SendTimeoutError};
use super::header::{Header, Held, RECEIVE_ON, SEND_ON, Side, Word};
use super::ring::Ring;
use crate::base::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::engine::caller::Caller;
use crate::engine::park::{park_with, ready_pinned};
use crate::entities::goroutine::{Goroutine, Ticket};
use crate::library::cancel::{ContextError, Limit};
use crate::library::waiter::wait_until;
use crate::platform::{OutOfResources, Pinned, Platform};
use crate::synctest::Home;

/// A channel with its values. Go: `hchan`.
// In this order: a select keeps addresses of channels and of their headers, which are the same then.
#[repr(C)]
pub(crate) struct Channel<T, P: Platform> {
    pub(crate) header: Header<P>,
    ring: Ring<T>,
    /// Handles of each side, see `handle`.
    pub(super) sender_count: AtomicUsize,
    pub(super) receiver_count: AtomicUsize,
    /// All handles of one side are gone.
    pub(super) is_half_gone: AtomicBool,
}

// SAFETY: who has a channel can send values of type `T` to other Gs and receive theirs; all else in it is atomic, or in the
// ring, and used under the lock only.
unsafe impl<T: Send, P: Platform> Sync for Channel<T, P> {}

/// What came of trying to send or receive, under the lock.
#[derive(Debug)]
pub(crate) enum Attempt<P: Platform> {
    /// The value has moved. The G that waited for that, if there is one, is to be readied once the lock is free.
    Moved(Option<&'static Goroutine<P>>),
    /// The channel is closed, or the caller is outside of its bubble ([`Header::check_closed`] tells); nothing has moved.
    Closed,
    /// Nothing can move now.
    NotReady,
}

/// In [`Waiter::outcome`](crate::library::waiter::Waiter::outcome): the value has moved. Whoever closes a channel leaves it at zero.
pub(crate) const MOVED: usize = 1;

/// How a wait ended that did not move a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unmoved {
    Closed,
    Ended(ContextError),
}

impl<T, P: Platform> Channel<T, P> {
    /// With `never` the other side is never there, and never gone.
    pub(crate) fn new(capacity: usize, never: bool, home: Home<P>) -> Result<Self, OutOfResources> {
        if capacity > Header::<P>::CAPACITY_LIMIT {
            return Err(OutOfResources);
        }
        Ok(Self {
            header: Header::new(capacity, never, home),
            ring: Ring::new(capacity)?,
            sender_count: AtomicUsize::new(1),
            receiver_count: AtomicUsize::new(1),
            is_half_gone: AtomicBool::new(never),
        })
    }
}

/// Under the lock.
impl<T, P: Platform> Channel<T, P> {
    /// Moves the value at `from` to a receiver that waits, or into the buffer. Go: `chansend`.
    ///
    /// # Safety
    ///
    /// `from` has a value, which is the caller's to move; it is gone if the answer is [`Attempt::Moved`].
    #[inline(always)]
    pub(crate) unsafe fn offer(&self, held: &Held<'_, P>, from: *const T) -> Attempt<P> {
        let word = self.header.word();
        if word.is_special() && self.header.refuses() {
            return Attempt::Closed;
        }
        // SAFETY: by the caller.
        unsafe { self.offer_to_open(held, from, word, word.length()) }
    }

    /// [`offer`](Self::offer) where nothing is refused, with `length` values in the buffer.
    #[inline(always)]
    unsafe fn offer_to_open(&self, held: &Held<'_, P>, from: *const T, word: Word, length: usize) -> Attempt<P> {
        debug_assert!(held.is_of(&self.header));
        if let Some((receiver, goroutine)) = self.header.receivers.pop_with_goroutine() {
            let place = receiver.place.load(Ordering::Relaxed).cast::<T>();
            // SAFETY: whoever queues among the receivers of this channel leaves the address of a free place for a `T`, which
            // is good until its G goes on; that one waits until it is readied, for we have ended its wait.
            unsafe { ptr::copy_nonoverlapping(from, place, 1) };
            receiver.outcome.store(MOVED, Ordering::Relaxed);
            return Attempt::Moved(Some(goroutine));
        }
        if length < self.header.capacity {
            // SAFETY: the lock is held and the ring has room; the value is the caller's.
            unsafe { self.ring.push(from) };
            held.set_len(word, 1);
            return Attempt::Moved(None);
        }
        Attempt::NotReady
    }

    /// Moves the oldest value to `to`, and one of a sender that waits into the place that becomes free. Go: `chanrecv`,
    /// `recv`.
    ///
    /// # Safety
    ///
    /// `to` is free and may be written; it has a value if the answer is [`Attempt::Moved`].
    #[inline(always)]
    pub(crate) unsafe fn take(&self, held: &Held<'_, P>, to: *mut T) -> Attempt<P> {
        debug_assert!(held.is_of(&self.header));
        let word = self.header.word();
        if word.is_zero() {
            // SAFETY: by the caller.
            return unsafe { self.take_from_sender(to) };
        }
        if word.is_special() {
            // SAFETY: by the caller.
            return unsafe { self.take_from_special(to, word) };
        }
        // SAFETY: by the caller; there is a value in the buffer.
        unsafe { self.take_from_buffer(held, to, word) }
    }

    /// [`take`](Self::take) where nothing is in the buffer: what a sender has that waits.
    #[inline(always)]
    unsafe fn take_from_sender(&self, to: *mut T) -> Attempt<P> {
        let Some((sender, goroutine)) = self.header.senders.pop_with_goroutine() else { return Attempt::NotReady };
        let place = sender.place.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: whoever queues among the senders leaves the address of a value, which is ours to move, for we have
        // ended its wait; `to` is free.
        unsafe { ptr::copy_nonoverlapping(place, to, 1) };
        sender.outcome.store(MOVED, Ordering::Relaxed);
        Attempt::Moved(Some(goroutine))
    }

    /// [`take`](Self::take) where the channel is closed or in a bubble.
    #[cold]
    #[inline(never)]
    unsafe fn take_from_special(&self, to: *mut T, word: Word) -> Attempt<P> {
        if word.length() > 0 {
            // Not the caller's: what has an address is kept in memory.
            let held = ManuallyDrop::new(self.header.assume_locked());
            // SAFETY: by the caller; there is a value in the buffer.
            return unsafe { self.take_from_buffer(&held, to, word) };
        }
        // SAFETY: by the caller.
        match unsafe { self.take_from_sender(to) } {
            Attempt::NotReady if self.header.refuses() => Attempt::Closed,
            attempt => attempt,
        }
    }

    /// [`take`](Self::take) where there is something in the buffer.
    #[inline(always)]
    unsafe fn take_from_buffer(&self, held: &Held<'_, P>, to: *mut T, word: Word) -> Attempt<P> {
        // SAFETY: the lock is held and the ring is not empty; the place is the caller's.
        unsafe { self.ring.pop(to) };
        let Some((sender, goroutine)) = self.header.senders.pop_with_goroutine() else {
            held.set_len(word, -1);
            return Attempt::Moved(None);
        };
        let place = sender.place.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: the lock is held, and a place has just become free; whoever queues among the senders leaves the
        // address of a value, which is ours to move, for we have ended its wait.
        unsafe { self.ring.push(place) };
        sender.outcome.store(MOVED, Ordering::Relaxed);
        Attempt::Moved(Some(goroutine))
    }
}

/// With parking.
impl<T, P: Platform> Channel<T, P> {
    /// Sends `value`. With a deadline the G waits no longer than that.
    #[inline(always)]
    pub(crate) fn send(&self, value: T) -> Result<(), T> {
        let value = ManuallyDrop::new(value);
        let pinned = Pinned::new();
        let held = self.header.lock(&pinned);
        let word = self.header.word();
        if word.is_special() {
            return self.send_to_special(pinned, held, value);
        }
        // SAFETY: the value is ours; if it has moved, it is not used any more.
        match unsafe { self.offer_to_open(&held, &raw const *value, word, word.plain_length()) } {
            Attempt::Moved(receiver) => {
                unlock_and_ready(&pinned, held, receiver);
                return Ok(());
            }
            Attempt::Closed => {}
            Attempt::NotReady if self.wait_for_turn(pinned, held, Side::Send, (&raw const *value).cast_mut()) => {
                return Ok(());
            }
            Attempt::NotReady => {}
        }
        Err(ManuallyDrop::into_inner(value))
    }

    /// [`send`](Self::send) where the channel is closed, or in a bubble. Apart, so that the usual one has one way through.
    #[cold]
    #[inline(never)]
    fn send_to_special(&self, pinned: Pinned<P>, held: Held<'_, P>, value: ManuallyDrop<T>) -> Result<(), T> {
        // SAFETY: as in `send`.
        match unsafe { self.offer(&held, &raw const *value) } {
            Attempt::Moved(receiver) => {
                unlock_and_ready(&pinned, held, receiver);
                return Ok(());
            }
            Attempt::Closed => self.header.refused(pinned, held, SEND_ON),
            Attempt::NotReady if self.wait_for_turn(pinned, held, Side::Send, (&raw const *value).cast_mut()) => {
                return Ok(());
            }
            Attempt::NotReady => {}
        }
        Err(ManuallyDrop::into_inner(value))
    }

    /// Sends `value` if that needs no waiting. Tells, if not, whether the channel is closed.
    #[inline]
    pub(super) fn try_send(&self, value: T) -> Result<(), (T, bool)> {
        if !self.header.looks_ready(Side::Send) {
            return Err((value, false));
        }
        let value = ManuallyDrop::new(value);
        let pinned = Pinned::new();
        let held = self.header.lock(&pinned);
        // SAFETY: as in `send`.
        let attempt = unsafe { self.offer(&held, &raw const *value) };
        if let Attempt::Moved(receiver) = attempt {
            unlock_and_ready(&pinned, held, receiver);
            return Ok(());
        }
        Err((ManuallyDrop::into_inner(value), matches!(attempt, Attempt::Closed)))
    }

    /// Sends `value` if that needs no waiting, and drops it otherwise. Gives the G to be readied, if it was waited for.
    pub(crate) fn leave(&self, pinned: &Pinned<P>, value: T) -> Option<&'static Goroutine<P>>
    where
        T: Copy,
    {
        let held = self.header.lock(pinned);
        // SAFETY: the value is ours, and a copy of it, or none, does not matter to its type.
        match unsafe { self.offer(&held, &raw const value) } {
            Attempt::Moved(waiting) => waiting,
            Attempt::Closed | Attempt::NotReady => None,
        }
    }

    /// Sends `value`, or gives up when `limit` is over.
    pub(super) fn send_until(&self, value: T, limit: Limit<'_, P>) -> Result<(), SendTimeoutError<T>> {
        let value = ManuallyDrop::new(value);
        let pinned = Pinned::new();
        let held = self.header.lock(&pinned);
        // SAFETY: as in `send`.
        let ended = match unsafe { self.offer(&held, &raw const *value) } {
            Attempt::Moved(receiver) => {
                unlock_and_ready(&pinned, held, receiver);
                Ok(())
            }
            Attempt::NotReady => self.wait_until(pinned, held, Side::Send, (&raw const *value).cast_mut(), limit),
            Attempt::Closed => Err(Unmoved::Closed),
        };
        ended.map_err(|why| {
            let value = ManuallyDrop::into_inner(value);
            match why {
                Unmoved::Closed => SendTimeoutError::Closed(value),
                Unmoved::Ended(ContextError::DeadlineExceeded) => SendTimeoutError::Timeout(value),
                Unmoved::Ended(ContextError::Canceled) => SendTimeoutError::Canceled(value),
            }
        })
    }

    /// Receives a value; `None` if the channel is closed and drained.
    #[inline(always)]
    pub(crate) fn recv(&self) -> Option<T> {
        let mut place = MaybeUninit::<T>::uninit();
        let pinned = Pinned::new();
        let held = self.header.lock(&pinned);
        // SAFETY: the place is ours and free.
        match unsafe { self.take(&held, place.as_mut_ptr()) } {
            Attempt::Moved(sender) => unlock_and_ready(&pinned, held, sender),
            Attempt::Closed => {
                self.header.refused(pinned, held, RECEIVE_ON);
                return None;
            }
            Attempt::NotReady => {
                if !self.wait_for_turn(pinned, held, Side::Receive, place.as_mut_ptr()) {
                    return None;
                }
            }
        }
        // SAFETY: a value has moved there.
        Some(unsafe { place.assume_init() })
    }

    /// Receives a value if there is one. Tells, if not, whether the channel is closed and drained.
    #[inline]
    pub(crate) fn try_recv(&self) -> Result<T, bool> {
        if self.header.looks_ready(Side::Receive) { self.recv_now() } else { Err(false) }
    }

    /// [`try_recv`](Self::try_recv) of a caller that has looked.
    #[inline(always)]
    pub(crate) fn recv_now(&self) -> Result<T, bool> {
        let mut place = MaybeUninit::<T>::uninit();
        let pinned = Pinned::new();
        let held = self.header.lock(&pinned);
        // SAFETY: the place is ours and free.
        let attempt = unsafe { self.take(&held, place.as_mut_ptr()) };
        let Attempt::Moved(sender) = attempt else { return Err(matches!(attempt, Attempt::Closed)) };
        unlock_and_ready(&pinned, held, sender);
        // SAFETY: a value has moved there.
        Ok(unsafe { place.assume_init() })
    }

    /// Receives a value, or gives up when `limit` is over.
    pub(crate) fn recv_until(&self, limit: Limit<'_, P>) -> Result<T, RecvTimeoutError> {
        let mut place = MaybeUninit::<T>::uninit();
        let pinned = Pinned::new();
        let held = self.header.lock(&pinned);
        // SAFETY: the place is ours and free.
        let ended = match unsafe { self.take(&held, place.as_mut_ptr()) } {
            Attempt::Moved(sender) => {
                unlock_and_ready(&pinned, held, sender);
                Ok(())
            }
            Attempt::NotReady => self.wait_until(pinned, held, Side::Receive, place.as_mut_ptr(), limit),
            Attempt::Closed => Err(Unmoved::Closed),
        };
        match ended {
            // SAFETY: a value has moved there.
            Ok(()) => Ok(unsafe { place.assume_init() }),
            Err(Unmoved::Closed) => Err(RecvTimeoutError::Closed),
            Err(Unmoved::Ended(ContextError::DeadlineExceeded)) => Err(RecvTimeoutError::Timeout),
            Err(Unmoved::Ended(ContextError::Canceled)) => Err(RecvTimeoutError::Canceled),
        }
    }

    /// Parks until somebody has moved the value from or to `place`, or closed the channel; tells whether it has moved.
    #[inline(always)]
    fn wait_for_turn(&self, pinned: Pinned<P>, held: Held<'_, P>, side: Side, place: *mut T) -> bool {
        let (caller, held) = Caller::holding(pinned, held);
        let me = caller.me;
        me.waiter.prepare(me, Ticket::SOLE, place.cast());
        self.header.queue(side).push_back(&me.waiter);
        let in_bubble = || self.header.wait_reason_in_bubble(side);
        drop(park_with(caller, self.header.wait_reason(side), in_bubble, held.into_commit()));
        me.waiter.outcome.load(Ordering::Relaxed) == MOVED
    }

    /// [`wait_for_turn`](Self::wait_for_turn) for as long as `limit` says.
    fn wait_until(
        &self,
        pinned: Pinned<P>,
        held: Held<'_, P>,
        side: Side,
        place: *mut T,
        limit: Limit<'_, P>,
    ) -> Result<(), Unmoved> {
        if let Some(error) = limit.err() {
            return Err(Unmoved::Ended(error));
        }
        let (caller, held) = Caller::holding(pinned, held);
        let me = caller.me;
        let ticket = me.open_wait();
        me.waiter.prepare(me, ticket, place.cast());
        self.header.queue(side).push_back(&me.waiter);
        let in_bubble = || self.header.wait_reason_in_bubble(side);
        if wait_until(caller, self.header.wait_reason(side), in_bubble, ticket, limit, || drop(held)).is_none() {
            // Nobody touches the place any more: the timer or the context has the ticket.
            let pinned = Pinned::new();
            self.header.lock(&pinned).remove(side, &me.waiter);
            return Err(Unmoved::Ended(limit.ended()));
        }
        if me.waiter.outcome.load(Ordering::Relaxed) == MOVED { Ok(()) } else { Err(Unmoved::Closed) }
    }

    /// Closes the channel and readies all who wait; tells whether it was open. Go: `closechan`.
    pub(crate) fn close(&self) -> bool {
        let pinned = Pinned::new();
        let Some([senders, receivers]) = self.header.lock(&pinned).close() else { return false };
        senders.ready_all(&pinned);
        receivers.ready_all(&pinned);
        true
    }

    /// Drops what is in the buffer of a closed channel, one by one, without the lock.
    #[inline(always)]
    pub(super) fn drain(&self) {
        // Most often that is nothing.
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

/// Frees the lock, then readies the G that waited, if there is one. The caller goes on first.
#[inline(always)]
pub(crate) fn unlock_and_ready<P: Platform>(
    pinned: &Pinned<P>,
    held: Held<'_, P>,
    waiting: Option<&'static Goroutine<P>>,
) {
    drop(held);
    if let Some(goroutine) = waiting {
        ready_pinned(pinned, goroutine);
    }
}
