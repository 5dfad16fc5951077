//! The cases of a select, with the places where values are found and left.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::{self, ManuallyDrop, MaybeUninit};
use core::ptr;

use crate::base::atomic::Ordering;
use crate::entities::goroutine::{Goroutine, Ticket};
use crate::library::chan::{Attempt, Channel, Header, Held, MOVED, RecvError, Side, unlock_and_ready};
use crate::library::waiter::{WaitQueue, Waiter};
use crate::platform::{Pinned, Platform};

/// What is said to have been done from outside of a bubble.
pub(super) const SELECT_ON: &str = "select on";

/// What is expected of a select.
pub(super) const CHOSEN: &str = "the select has chosen this case";

/// Only the cases of this module are arms.
pub trait Sealed {}

/// What the macro does with a case whose type it knows. Safe in any order: each arm knows whether its value has moved.
#[doc(hidden)]
pub trait Arm: Sealed {
    /// What its body gets.
    type Result;

    /// Where it runs.
    type Platform: Platform;

    /// Whether it seems to be ready. Needs no lock.
    fn looks_ready(&self) -> bool;

    /// Does it now, if it is ready.
    ///
    /// # Panics
    ///
    /// It sends, and its value has been sent.
    fn try_now(&mut self) -> Option<Self::Result>;

    /// The result of the case that was chosen after it had to wait.
    ///
    /// # Panics
    ///
    /// It was not chosen.
    fn result(self) -> Self::Result;

    /// Drops a case that was not chosen.
    fn discard(self);
}

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
#[repr(C)]
pub struct RecvCase<'a, T, P: Platform> {
    /// Has a value while the outcome is `Moved`.
    place: UnsafeCell<MaybeUninit<T>>,
    channel: &'a Channel<T, P>,
    outcome: Cell<Outcome>,
}

impl<'a, T, P: Platform> RecvCase<'a, T, P> {
    #[inline]
    pub(crate) fn new(channel: &'a Channel<T, P>) -> Self {
        Self { place: UnsafeCell::new(MaybeUninit::uninit()), channel, outcome: Cell::new(Outcome::Pending) }
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
        match self.outcome.replace(Outcome::Pending) {
            Outcome::Pending => None,
            // SAFETY: the value was there, and no longer is: the outcome says so now.
            Outcome::Moved => Some(Ok(unsafe { self.place.get_mut().assume_init_read() })),
            Outcome::Closed => {
                self.channel.header.check_closed(SELECT_ON);
                Some(Err(RecvError))
            }
        }
    }
}

impl<T, P: Platform> RecvCase<'_, T, P> {
    /// The case was chosen, and no value has moved.
    #[cold]
    #[inline(never)]
    fn result_of_closed(mut self) -> Result<T, RecvError> {
        self.take().expect(CHOSEN)
    }
}

impl<T, P: Platform> Sealed for RecvCase<'_, T, P> {}

impl<T, P: Platform> Arm for RecvCase<'_, T, P> {
    type Result = Result<T, RecvError>;
    type Platform = P;

    #[inline(always)]
    fn looks_ready(&self) -> bool {
        self.channel.header.may_be_ready(Side::Receive)
    }

    #[inline(always)]
    fn try_now(&mut self) -> Option<Result<T, RecvError>> {
        // Not with the place in the case, which need not be in memory before it waits.
        recv_now(self.channel)
    }

    #[inline(always)]
    fn result(mut self) -> Result<T, RecvError> {
        if self.outcome.get() == Outcome::Moved {
            self.outcome.set(Outcome::Pending);
            // SAFETY: the value was there, and no longer is: the outcome says so now.
            return Ok(unsafe { self.place.get_mut().assume_init_read() });
        }
        self.result_of_closed()
    }

    #[inline(always)]
    fn discard(self) {
        // There is no value to drop, and to find that out takes longer.
        mem::forget(self);
    }
}

impl<T, P: Platform> Drop for RecvCase<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// What a select does with a case, whatever the type of its value.
///
/// # Safety
///
/// The value is, or is to be left, at the address of the implementor itself, in an [`UnsafeCell`].
pub(super) unsafe trait Transfer<P: Platform> {
    /// Moves the value, if that can be done now.
    ///
    /// # Safety
    ///
    /// The outcome is pending: no attempt has succeeded, and no waiter has ended the wait, since the case was made.
    unsafe fn attempt(&self, held: &Held<'_, P>) -> Attempt<P>;

    /// The waiter of this case ended the wait: the value has moved, or the channel is closed.
    fn finish(&self, moved: bool);
}

// SAFETY: the place comes first.
unsafe impl<T, P: Platform> Transfer<P> for RecvCase<'_, T, P> {
    #[inline]
    unsafe fn attempt(&self, held: &Held<'_, P>) -> Attempt<P> {
        // SAFETY: the place is free: the outcome is pending, by the caller.
        note(&self.outcome, unsafe { self.channel.take(held, self.place.get().cast()) })
    }

    fn finish(&self, moved: bool) {
        self.outcome.set(if moved { Outcome::Moved } else { Outcome::Closed });
    }
}

/// Unlocks a channel. Apart, so that the usual way through does not prepare it.
#[cold]
#[inline(never)]
fn give_back<P: Platform>(held: Held<'_, P>) {
    drop(held);
}

/// [`Arm::try_now`] of a case that receives.
#[inline(never)]
fn recv_now<T, P: Platform>(channel: &Channel<T, P>) -> Option<Result<T, RecvError>> {
    match channel.recv_now() {
        Ok(value) => Some(Ok(value)),
        Err(false) => None,
        Err(true) => {
            channel.header.check_closed(SELECT_ON);
            Some(Err(RecvError))
        }
    }
}

/// [`Arm::try_now`] of a case that sends: returns whether it was ready.
///
/// # Safety
///
/// As for [`Transfer::attempt`].
#[inline(always)]
pub(super) unsafe fn try_now<P: Platform>(header: &Header<P>, target: &impl Transfer<P>) -> bool {
    let pinned = Pinned::new();
    let held = header.lock(&pinned);
    // SAFETY: by the caller.
    match unsafe { target.attempt(&held) } {
        Attempt::Moved(waiting) => unlock_and_ready(&pinned, held, waiting),
        Attempt::Closed => {}
        Attempt::NotReady => return false,
    }
    true
}

/// Notes how an attempt went, which began with a pending outcome.
#[inline(always)]
pub(super) fn note<P: Platform>(outcome: &Cell<Outcome>, attempt: Attempt<P>) -> Attempt<P> {
    debug_assert_eq!(outcome.get(), Outcome::Pending, "a case is done twice");
    match attempt {
        Attempt::Moved(_) => outcome.set(Outcome::Moved),
        Attempt::Closed => outcome.set(Outcome::Closed),
        Attempt::NotReady => {}
    }
    attempt
}

/// A case of a select, whatever the type of its values; see [`Select`](super::Select) for an example. Made by
/// [`RecvCase::case`], [`SendCase::case`](super::SendCase::case) and [`SendFromCase::case`](super::SendFromCase::case). Go: `scase`.
#[doc(alias = "scase")]
// In this order: the address of the waiter, which is compared most often, is that of the case.
#[repr(C)]
pub struct Case<'a, P: Platform> {
    /// Its place in the channel's queue while the G waits; nothing before.
    waiter: MaybeUninit<Waiter<P>>,
    header: &'a Header<P>,
    side: Side,
    /// The number of the case that comes at this place in the order in which the channels are locked. No property of this
    /// case; it stays until they are unlocked.
    pub(super) listed: u32,
    target: &'a dyn Transfer<P>,
}

impl<'a, P: Platform> Case<'a, P> {
    /// A case on that channel, whose outcome is pending. The case borrows `target`, which nobody else can use meanwhile.
    #[inline(always)]
    pub(super) fn new(header: &'a Header<P>, side: Side, target: &'a dyn Transfer<P>) -> Self {
        Self { waiter: MaybeUninit::uninit(), header, side, listed: 0, target }
    }

    #[inline(always)]
    pub(super) fn looks_ready(&self) -> bool {
        self.header.looks_ready(self.side)
    }

    /// Whether only the bubble of the calling G, which is in one, can make it ready.
    pub(super) fn waits_within_bubble(&self) -> bool {
        self.header.wait_reason_in_bubble(self.side).is_durable()
    }

    /// Where its channel is.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self.header).addr()
    }

    /// Does it now, if it is ready. The channel is not locked by this select.
    #[inline(always)]
    pub(super) fn lock_and_attempt(&self, pinned: &Pinned<P>) -> (Held<'a, P>, Attempt<P>) {
        let held = self.header.lock(pinned);
        // SAFETY: the outcome was pending when the case was made. One select alone has the case, since it borrows it for as long
        // as the case lives, and that select ends by its first attempt that succeeds.
        let attempt = unsafe { self.target.attempt(&held) };
        (held, attempt)
    }

    /// Does it now, if it is ready. The channel is locked by this select.
    pub(super) fn attempt(&self) -> Attempt<P> {
        let held = ManuallyDrop::new(self.header.assume_locked());
        // SAFETY: as in `lock_and_attempt`.
        unsafe { self.target.attempt(&held) }
    }

    /// Locks its channel, for the select to keep.
    pub(super) fn lock(&self, pinned: &Pinned<P>) {
        mem::forget(self.header.lock(pinned));
    }

    /// [`lock`](Self::lock), unless somebody has the lock, be it this select itself. Tells whether it has it now.
    #[inline(always)]
    pub(super) fn try_lock(&self, pinned: &Pinned<P>) -> bool {
        self.header.try_lock(pinned).map(mem::forget).is_some()
    }

    /// Unlocks its channel, which the select keeps locked.
    #[inline(always)]
    pub(super) fn unlock(&self) {
        drop(self.header.assume_locked());
    }

    /// Puts the calling G, `me`, into the queue of its channel, which is locked.
    ///
    /// The case stays where it is until [`leave_queue`](Self::leave_queue) has been called, or its waiter has woken the G.
    #[inline(always)]
    pub(crate) fn enter_queue(&mut self, me: &'static Goroutine<P>, ticket: Ticket) {
        self.enter(self.header.queue(self.side), me, ticket);
    }

    #[inline(always)]
    fn enter(&mut self, queue: &WaitQueue<P>, me: &'static Goroutine<P>, ticket: Ticket) {
        // There, by the promise of `Transfer`.
        let place = ptr::from_ref(self.target).cast_mut().cast();
        self.waiter.write(Waiter::of_several(me, ticket, place));
        queue.push_back(self.waiter());
    }

    /// Locks its channel, keeps the lock, and puts `me` into the queue, if nobody has the lock and it does not seem to be ready;
    /// tells whether it did. Each word of the case is read once.
    #[inline(always)]
    pub(super) fn lock_and_enter(&mut self, pinned: &Pinned<P>, me: &'static Goroutine<P>, ticket: Ticket) -> bool {
        let (header, side) = (self.header, self.side);
        let Some(held) = header.try_lock(pinned) else { return false };
        if header.may_be_ready(side) {
            give_back(held);
            return false;
        }
        mem::forget(held);
        self.enter(header.queue(side), me, ticket);
        true
    }

    /// Takes the calling G out of the queue of its channel, which is still locked since it entered.
    #[cold]
    pub(super) fn take_back(&self) {
        self.header.queue(self.side).remove(self.waiter());
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
    pub(crate) fn finish(&self) {
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
        f.debug_struct("RecvCase").field("outcome", &self.outcome.get()).finish_non_exhaustive()
    }
}
