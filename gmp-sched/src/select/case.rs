//! The cases of a select, with the places where values are found and left.

use core::cell::Cell;
use core::fmt;
use core::mem::{self, ManuallyDrop, MaybeUninit};
use core::ptr;

use crate::chan::{Attempt, Channel, Header, Held, MOVED, RecvError, SendError, Sender, Side};
use crate::goroutine::{Goroutine, Ticket};
use crate::platform::{Pinned, Platform};
use crate::primitives::Ordering;
use crate::waiter::Waiter;

/// What is said to have been done from outside of a bubble.
pub(super) const SELECT_ON: &str = "select on";

/// How it went with a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was not chosen.
    Pending,
    /// It was chosen, and the value has moved.
    Moved,
    /// It was chosen because the channel is closed.
    Closed,
}

/// A case that receives. See [`recv`](super::recv) for an example.
pub struct RecvCase<'a, T, P: Platform> {
    channel: &'a Channel<T, P>,
    /// Has a value while the outcome is `Moved`.
    place: MaybeUninit<T>,
    outcome: Outcome,
}

/// A case that sends. See [`send`] for an example.
pub struct SendCase<'a, T, P: Platform> {
    channel: &'a Channel<T, P>,
    /// Has a value unless the outcome is `Moved`.
    value: ManuallyDrop<T>,
    outcome: Outcome,
}

/// A case that sends `value` to `sender`. Go: `case c <- v`.
///
/// ```
/// use gmp_sched::native::{self, channel};
/// use gmp_sched::select::{Select, send};
///
/// native::run(1, || {
///     let (sender, receiver) = channel(0);
///     let mut case = send(&sender, 5);
///     assert_eq!(Select::new(&mut [case.case()]).poll(), None);
///     // Nobody wanted the value: it is still here.
///     assert_eq!(case.into_inner(), Some(5));
///     drop(receiver);
/// });
/// ```
#[inline]
pub fn send<T, P: Platform>(sender: &Sender<T, P>, value: T) -> SendCase<'_, T, P> {
    SendCase { channel: sender.channel(), value: ManuallyDrop::new(value), outcome: Outcome::Pending }
}

impl<'a, T, P: Platform> RecvCase<'a, T, P> {
    #[inline]
    pub(crate) fn new(channel: &'a Channel<T, P>) -> Self {
        Self { channel, place: MaybeUninit::uninit(), outcome: Outcome::Pending }
    }

    /// The case itself, for one [`Select`](super::Select). What it received before, and was not asked for, is dropped.
    ///
    /// ```
    /// use gmp_sched::native::Receiver;
    /// use gmp_sched::select::{Select, recv};
    ///
    /// let (one, other) = (Receiver::<u8>::never(), Receiver::<&str>::never());
    /// let (mut one, mut other) = (recv(&one), recv(&other));
    /// assert_eq!(Select::new(&mut [one.case(), other.case()]).poll(), None);
    /// ```
    #[inline]
    pub fn case(&mut self) -> Case<'_, P> {
        drop(self.take());
        Case::new(&self.channel.header, Side::Receive, self)
    }

    /// What was received; `None` if the case was not chosen. See [`recv`](super::recv) for an example.
    #[inline]
    pub fn into_result(mut self) -> Option<Result<T, RecvError>> {
        self.take()
    }

    #[inline]
    fn take(&mut self) -> Option<Result<T, RecvError>> {
        match mem::replace(&mut self.outcome, Outcome::Pending) {
            Outcome::Pending => None,
            // SAFETY: the value was there, and no longer is: the outcome says so now.
            Outcome::Moved => Some(Ok(unsafe { self.place.assume_init_read() })),
            Outcome::Closed => {
                self.channel.header.check_closed(SELECT_ON);
                Some(Err(RecvError))
            }
        }
    }
}

impl<'a, T, P: Platform> SendCase<'a, T, P> {
    /// The case itself, for one [`Select`](super::Select). See [`RecvCase::case`] for an example.
    ///
    /// # Panics
    ///
    /// The value has been sent.
    #[inline]
    #[track_caller]
    pub fn case(&mut self) -> Case<'_, P> {
        assert!(self.outcome != Outcome::Moved, "the value of this case has been sent");
        self.outcome = Outcome::Pending;
        Case::new(&self.channel.header, Side::Send, self)
    }

    /// How it went; `None` if the case was not chosen: the value is dropped then.
    ///
    /// ```
    /// use gmp_sched::chan::SendError;
    /// use gmp_sched::native::{self, channel};
    /// use gmp_sched::select::{Select, send};
    ///
    /// native::run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     let mut case = send(&sender, 1);
    ///     assert_eq!(Select::new(&mut [case.case()]).wait(), 0);
    ///     assert_eq!(case.into_result(), Some(Ok(())));
    ///     drop(receiver);
    ///     let mut case = send(&sender, 2);
    ///     assert_eq!(Select::new(&mut [case.case()]).wait(), 0);
    ///     assert_eq!(case.into_result(), Some(Err(SendError(2))));
    /// });
    /// ```
    #[inline]
    pub fn into_result(self) -> Option<Result<(), SendError<T>>> {
        match self.outcome {
            Outcome::Pending => None,
            Outcome::Moved => Some(Ok(())),
            Outcome::Closed => {
                self.channel.header.check_closed(SELECT_ON);
                self.into_inner().map(|value| Err(SendError(value)))
            }
        }
    }

    /// The value, if it was not sent. See [`send`] for an example.
    #[inline]
    pub fn into_inner(self) -> Option<T> {
        let mut this = ManuallyDrop::new(self);
        if this.outcome == Outcome::Moved {
            return None;
        }
        // SAFETY: it is there, and is taken once: what it is taken from is not dropped.
        Some(unsafe { ManuallyDrop::take(&mut this.value) })
    }
}

impl<T, P: Platform> Drop for RecvCase<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T, P: Platform> Drop for SendCase<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        if self.outcome != Outcome::Moved {
            // SAFETY: the value is there, and nobody comes after this.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// What a select does with a case of whatever type.
pub(super) trait Transfer<P: Platform> {
    /// Moves the value, if that can be done now.
    fn attempt(&mut self, held: &Held<'_, P>) -> Attempt<P>;

    /// Where the value is, or is to be left, by whoever finds the case waiting.
    fn place(&mut self) -> *mut ();

    /// Somebody found the case waiting: whether the value has moved, else the channel is closed.
    fn finish(&mut self, moved: bool);
}

impl<T, P: Platform> Transfer<P> for RecvCase<'_, T, P> {
    fn attempt(&mut self, held: &Held<'_, P>) -> Attempt<P> {
        // SAFETY: the place is free: `case` has emptied it, and a select makes one attempt that succeeds.
        let attempt = unsafe { self.channel.take(held, self.place.as_mut_ptr()) };
        self.outcome = outcome_of(&attempt);
        attempt
    }

    fn place(&mut self) -> *mut () {
        self.place.as_mut_ptr().cast()
    }

    fn finish(&mut self, moved: bool) {
        self.outcome = if moved { Outcome::Moved } else { Outcome::Closed };
    }
}

impl<T, P: Platform> Transfer<P> for SendCase<'_, T, P> {
    fn attempt(&mut self, held: &Held<'_, P>) -> Attempt<P> {
        // SAFETY: the value is there: `case` has seen to it, and a select makes one attempt that succeeds; then the
        // outcome says that it is gone.
        let attempt = unsafe { self.channel.offer(held, &raw const *self.value) };
        self.outcome = outcome_of(&attempt);
        attempt
    }

    fn place(&mut self) -> *mut () {
        (&raw mut *self.value).cast()
    }

    fn finish(&mut self, moved: bool) {
        self.outcome = if moved { Outcome::Moved } else { Outcome::Closed };
    }
}

#[inline]
pub(super) fn outcome_of<P: Platform>(attempt: &Attempt<P>) -> Outcome {
    match attempt {
        Attempt::Moved(_) => Outcome::Moved,
        Attempt::Closed => Outcome::Closed,
        Attempt::NotReady => Outcome::Pending,
    }
}

/// A case of a select, whatever the type of its values; see [`Select`](super::Select) for an example. Made by
/// [`RecvCase::case`], [`SendCase::case`] and [`SendFromCase::case`](super::SendFromCase::case). Go: `scase`.
#[doc(alias = "scase")]
pub struct Case<'a, P: Platform> {
    header: &'a Header<P>,
    side: Side,
    /// Whether this case keeps the lock of its channel. A cell, because it is given back on the far side of the switch.
    holds: Cell<bool>,
    /// For whoever needs a list of some of the cases, in some order: the number of the one that comes at this place. No
    /// property of this case.
    pub(super) listed: u32,
    target: &'a mut dyn Transfer<P>,
    /// Its place in the channel's queue while the G waits; nothing before.
    waiter: MaybeUninit<Waiter<P>>,
}

impl<'a, P: Platform> Case<'a, P> {
    #[inline(always)]
    pub(super) fn new(header: &'a Header<P>, side: Side, target: &'a mut dyn Transfer<P>) -> Self {
        let (holds, waiter) = (Cell::new(false), MaybeUninit::uninit());
        Self { header, side, holds, listed: 0, target, waiter }
    }

    #[inline(always)]
    pub(super) fn looks_ready(&self) -> bool {
        self.header.looks_ready(self.side)
    }

    /// Where its channel is.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self.header).addr()
    }

    /// Does it now, if it is ready. The channel is not locked by this select.
    #[inline(always)]
    pub(super) fn lock_and_attempt(&mut self, pinned: &Pinned<P>) -> (Held<'a, P>, Attempt<P>) {
        let held = self.header.lock(pinned);
        let attempt = self.target.attempt(&held);
        (held, attempt)
    }

    /// Does it now, if it is ready. The channel is locked by this case or by another one on it.
    pub(super) fn attempt(&mut self) -> Attempt<P> {
        let held = ManuallyDrop::new(self.header.assume_locked());
        self.target.attempt(&held)
    }

    /// Locks its channel, for this case to keep.
    pub(super) fn lock(&self, pinned: &Pinned<P>) {
        mem::forget(self.header.lock(pinned));
        self.holds.set(true);
    }

    /// [`lock`](Self::lock), unless somebody has the lock, be it this select itself. Tells whether it has it now.
    #[inline(always)]
    pub(super) fn try_lock(&self, pinned: &Pinned<P>) -> bool {
        let locked = self.header.try_lock(pinned).map(mem::forget).is_some();
        self.holds.set(locked);
        locked
    }

    /// Unlocks its channel if it keeps the lock; tells whether it did.
    #[inline(always)]
    pub(super) fn unlock(&self) -> bool {
        let holds = self.holds.replace(false);
        if holds {
            drop(self.header.assume_locked());
        }
        holds
    }

    /// Puts the calling G, `me`, into the queue of its channel, which is locked.
    ///
    /// The case stays where it is until [`leave_queue`](Self::leave_queue) has been called, or its waiter has woken the G.
    #[inline(always)]
    pub(crate) fn enter_queue(&mut self, me: &'static Goroutine<P>, ticket: Ticket) {
        let place = self.target.place();
        self.waiter.write(Waiter::new());
        let waiter = self.waiter();
        waiter.prepare(me, ticket, place);
        self.header.queue(self.side).push_back(waiter);
    }

    /// Takes the calling G out of the queue of its channel, if it still stands there; and no one is at the waiter any more.
    #[inline(always)]
    pub(super) fn leave_queue(&self, pinned: &Pinned<P>) {
        self.header.lock(pinned).remove(self.side, self.waiter());
    }

    /// The waiter of a case that has entered the queue.
    #[inline(always)]
    pub(super) fn waiter(&self) -> &'static Waiter<P> {
        // SAFETY: it was made by `enter_queue`. It lies on the stack of a G that does not leave the select before each of
        // its waiters has been taken out of its queue, by itself or by whoever woke it, under the lock in both cases; the
        // latter is through with it when the G is made to run.
        unsafe { &*self.waiter.as_ptr() }
    }

    /// The G was woken by the waiter of this case.
    #[inline]
    pub(crate) fn finish(&mut self) {
        let moved = self.waiter().outcome.load(Ordering::Relaxed) == MOVED;
        self.target.finish(moved);
    }
}

impl<P: Platform> fmt::Debug for Case<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("side", &self.side).finish_non_exhaustive()
    }
}

impl<T, P: Platform> fmt::Debug for RecvCase<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvCase").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl<T, P: Platform> fmt::Debug for SendCase<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendCase").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
