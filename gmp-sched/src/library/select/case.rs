//! The cases of a select. A case contains the value slot that its value is moved from or to.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::{self, ManuallyDrop, MaybeUninit};
use core::ptr;

use crate::base::atomic::Ordering;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::wait_reason::Awaited;
use crate::entities::waiter::Waiter;
use crate::library::chan::{Attempt, Channel, Header, Held, MOVED, RecvError, Side, Unmoved};
use crate::library::limit::Patience;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// What the panic message calls the operation if a select uses a channel from outside of the channel's bubble.
pub(super) const SELECT_ON: &str = "select on";

/// The `expect` message for the outcome of the chosen case.
pub(super) const CHOSEN: &str = "the select has chosen this case";

/// The operations that `select!` applies to a case whose type it knows. They are safe in any order, because each case
/// records whether its value has moved.
#[doc(hidden)]
pub trait Arm {
    /// The value that the arm's pattern is matched with.
    type Result;

    /// The platform of the channel.
    type Platform: Platform;

    /// Whether the case seems to be ready. Takes no lock.
    fn looks_ready(&self) -> bool;

    /// Performs the case if it is ready.
    ///
    /// # Panics
    ///
    /// The case is a send whose value has been sent, or the caller is outside of the channel's bubble.
    #[track_caller]
    fn try_now(&mut self) -> Option<Self::Result>;

    /// Returns the result of a case that was chosen after a wait.
    ///
    /// # Panics
    ///
    /// The case was not chosen, or the caller is outside of the channel's bubble.
    #[track_caller]
    fn result(self) -> Self::Result;

    /// Drops a case that was not chosen.
    fn discard(self);
}

/// The outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The case has not been chosen.
    Pending,
    /// The case was chosen, and the value has moved.
    Moved,
    /// The case was chosen because the channel is closed, or because the caller is outside of the channel's bubble
    /// ([`Header::check_closed`] distinguishes the two).
    Closed,
}

/// A case that receives. See [`recv`](super::recv) for an example.
#[repr(C)]
pub struct RecvCase<'a, T, Plat: Platform> {
    /// Initialised while the outcome is `Moved`.
    slot: UnsafeCell<MaybeUninit<T>>,
    channel: &'a Channel<T, Plat>,
    outcome: Cell<Outcome>,
}

impl<'a, T, Plat: Platform> RecvCase<'a, T, Plat> {
    #[inline]
    pub(crate) fn new(channel: &'a Channel<T, Plat>) -> Self {
        Self { slot: UnsafeCell::new(MaybeUninit::uninit()), channel, outcome: Cell::new(Outcome::Pending) }
    }

    /// Makes the case for one [`Select`](super::Select). If an earlier select has received a value that was not taken,
    /// drops that value.
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
    #[track_caller]
    pub fn case(&mut self) -> Case<'_, Plat> {
        drop(self.take());
        Case::new(&self.channel.header, Side::Receive, self)
    }

    /// Returns the received value, or an error if the case was chosen because the channel is closed and drained. If the
    /// case was not chosen, returns `None`. See [`recv`](super::recv) for an example.
    #[inline]
    #[track_caller]
    pub fn into_result(mut self) -> Option<Result<T, RecvError>> {
        self.take()
    }

    #[inline]
    #[track_caller]
    fn take(&mut self) -> Option<Result<T, RecvError>> {
        match self.outcome.replace(Outcome::Pending) {
            Outcome::Pending => None,
            // SAFETY: the outcome was `Moved`, so `slot` is initialised. The outcome is `Pending` now, so the value is
            // read once.
            Outcome::Moved => Some(Ok(unsafe { self.slot.get_mut().assume_init_read() })),
            Outcome::Closed => {
                self.channel.header.check_closed(SELECT_ON);
                Some(Err(RecvError))
            }
        }
    }
}

impl<T, Plat: Platform> RecvCase<'_, T, Plat> {
    /// The result of a chosen case that moved no value.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn result_of_closed(mut self) -> Result<T, RecvError> {
        self.take().expect(CHOSEN)
    }
}

impl<T, Plat: Platform> Arm for RecvCase<'_, T, Plat> {
    type Result = Result<T, RecvError>;
    type Platform = Plat;

    #[inline(always)]
    fn looks_ready(&self) -> bool {
        self.channel.header.may_be_ready(Side::Receive)
    }

    #[inline(always)]
    fn try_now(&mut self) -> Option<Result<T, RecvError>> {
        /// Outlined with the channel and not with the case, because taking the address of the case would force it into
        /// memory, even if the select never waits.
        #[inline(never)]
        #[track_caller]
        fn receive<T, Plat: Platform>(channel: &Channel<T, Plat>) -> Option<Result<T, RecvError>> {
            match channel.receive(Patience::Never) {
                Ok(value) => Some(Ok(value)),
                Err(Unmoved::Ended(_)) => None,
                Err(Unmoved::Closed) => {
                    channel.header.check_closed(SELECT_ON);
                    Some(Err(RecvError))
                }
            }
        }
        receive(self.channel)
    }

    #[inline(always)]
    fn result(mut self) -> Result<T, RecvError> {
        if self.outcome.get() == Outcome::Moved {
            self.outcome.set(Outcome::Pending);
            // SAFETY: the outcome was `Moved`, so `slot` is initialised. The outcome is `Pending` now, so the value is
            // read once.
            return Ok(unsafe { self.slot.get_mut().assume_init_read() });
        }
        self.result_of_closed()
    }

    #[inline(always)]
    fn discard(self) {
        // A case that was not chosen has no value to drop. `forget` skips the check in `drop`.
        mem::forget(self);
    }
}

impl<T, Plat: Platform> Drop for RecvCase<'_, T, Plat> {
    #[inline]
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The operations of a select on a case, independent of the type of the value.
///
/// # Safety
///
/// The first field of the implementor is the value slot, an [`UnsafeCell`] that the value is moved from or to. [`Case`]
/// uses the address of the implementor as the address of the value slot.
pub(super) unsafe trait Transfer<Plat: Platform> {
    /// Moves the value, if that is possible now.
    ///
    /// # Safety
    ///
    /// The outcome is pending: since the case was made, no attempt has succeeded, and the case's waiter has not woken
    /// the G.
    unsafe fn attempt(&self, held: &Held<'_, Plat>) -> Attempt<Plat>;

    /// Called if the G was woken through the waiter of this case. Records whether the value has moved or the channel is
    /// closed.
    fn finish(&self, moved: bool);
}

// SAFETY: `slot` is the first field, and the struct is `repr(C)`. So the struct and `slot` have the same address.
unsafe impl<T, Plat: Platform> Transfer<Plat> for RecvCase<'_, T, Plat> {
    #[inline]
    unsafe fn attempt(&self, held: &Held<'_, Plat>) -> Attempt<Plat> {
        // SAFETY: the caller promises that the outcome is pending, so `slot` is uninitialised.
        note(&self.outcome, unsafe { self.channel.take(held, self.slot.get().cast()) })
    }

    fn finish(&self, moved: bool) {
        self.outcome.set(if moved { Outcome::Moved } else { Outcome::Closed });
    }
}

/// Releases a channel's lock. Outlined, to keep the fast path small.
#[cold]
#[inline(never)]
fn unlock<Plat: Platform>(held: Held<'_, Plat>) {
    drop(held);
}

/// Stores the outcome of an attempt. The outcome was pending before the attempt.
#[inline(always)]
pub(super) fn note<Plat: Platform>(outcome: &Cell<Outcome>, attempt: Attempt<Plat>) -> Attempt<Plat> {
    debug_assert_eq!(outcome.get(), Outcome::Pending, "a case is done twice");
    match attempt {
        Attempt::Moved(_) => outcome.set(Outcome::Moved),
        Attempt::Closed => outcome.set(Outcome::Closed),
        Attempt::NotReady => {}
    }
    attempt
}

/// Stores the result of an operation that did not wait. The outcome was pending before the operation.
#[inline(always)]
pub(super) fn note_result(outcome: &Cell<Outcome>, result: Result<(), Unmoved>) {
    match result {
        Ok(()) => outcome.set(Outcome::Moved),
        Err(Unmoved::Closed) => outcome.set(Outcome::Closed),
        Err(Unmoved::Ended(_)) => {}
    }
}

/// A case of a select, independent of the type of its value; see [`Select`](super::Select) for an example. Made by
/// [`RecvCase::case`], [`SendCase::case`](super::SendCase::case) and [`SendFromCase::case`](super::SendFromCase::case).
/// Go: `scase`.
#[doc(alias = "scase")]
// `repr(C)` puts the waiter first. So the address of the case is also the address of its waiter, which is needed more
// often than the address of any other field.
#[repr(C)]
pub struct Case<'a, Plat: Platform> {
    /// The entry in the channel's queue; initialised when the case is queued.
    waiter: MaybeUninit<Waiter<Plat>>,
    header: &'a Header<Plat>,
    side: Side,
    /// The index that the case had before the cases were sorted. Valid only for a select that has sorted its cases.
    number: u32,
    target: &'a dyn Transfer<Plat>,
}

impl<'a, Plat: Platform> Case<'a, Plat> {
    /// Makes a case with a pending outcome. The case borrows `target`, so that nothing else uses `target` meanwhile.
    #[inline(always)]
    pub(super) fn new(header: &'a Header<Plat>, side: Side, target: &'a dyn Transfer<Plat>) -> Self {
        Self { waiter: MaybeUninit::uninit(), header, side, number: 0, target }
    }

    #[inline(always)]
    pub(super) fn looks_ready(&self) -> bool {
        self.header.looks_ready(self.side)
    }

    /// Whether only Gs and timers of the calling G's bubble can make the case ready. Called only by a G in a bubble.
    pub(super) fn is_of_current_bubble(&self) -> bool {
        self.header.is_of_current_bubble() || self.header.wait_reason(self.side).is_durable()
    }

    /// Sets the index of the case before the cases are sorted.
    pub(super) fn set_number(&mut self, number: u32) {
        self.number = number;
    }

    /// The index that the case had before the cases were sorted.
    pub(crate) fn number(&self) -> usize {
        self.number as usize
    }

    /// The address of the case's channel.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self.header).addr()
    }

    /// The place of the case's channel in the locking order.
    #[inline(always)]
    pub(super) fn place_in_order(&self) -> (u32, usize) {
        self.header.place_in_order()
    }

    /// Takes the channel's lock, which this select does not hold yet, and performs the case if it is ready.
    #[inline(always)]
    pub(super) fn lock_and_attempt(&self, pinned: &Pinned<Plat>) -> (Held<'a, Plat>, Attempt<Plat>) {
        let held = self.header.lock(pinned);
        // SAFETY: the outcome was pending when the case was made. Only one select uses the case, since a select borrows
        // its cases for their whole lifetime. A select stops after its first successful attempt.
        let attempt = unsafe { self.target.attempt(&held) };
        (held, attempt)
    }

    /// Performs the case if it is ready. This select already holds the channel's lock.
    pub(super) fn attempt(&self) -> Attempt<Plat> {
        let held = ManuallyDrop::new(self.header.assume_locked());
        // SAFETY: the outcome was pending when the case was made, and no other select uses the case. A select stops
        // after its first successful attempt.
        unsafe { self.target.attempt(&held) }
    }

    /// Takes the channel's lock and keeps it.
    pub(super) fn lock(&self, pinned: &Pinned<Plat>) {
        mem::forget(self.header.lock(pinned));
    }

    /// Releases the channel's lock, which the select holds.
    #[inline(always)]
    pub(super) fn unlock(&self) {
        drop(self.header.assume_locked());
    }

    /// Queues the calling G, `me`, on the channel, whose lock is held.
    ///
    /// The case must not move until [`leave_queue`](Self::leave_queue) has returned, or until the G was woken through
    /// the waiter of the case.
    #[inline(always)]
    pub(crate) fn enter_queue(&mut self, me: &'static Goroutine<Plat>, generation: WaitGeneration) {
        self.enter(self.header.queue(self.side), me, generation);
    }

    #[inline(always)]
    fn enter(&mut self, queue: &WaitQueue<Plat>, me: &'static Goroutine<Plat>, generation: WaitGeneration) {
        // The value slot has the address of `target`, by the contract of `Transfer`.
        let slot = ptr::from_ref(self.target).cast_mut().cast();
        self.waiter.write(Waiter::of_several(me, generation, slot));
        queue.push_back(self.waiter());
    }

    /// If the channel is not locked and does not seem to be ready, takes and keeps its lock, queues `me`, and returns
    /// `true`. For speed, this function loads each field of the case only once.
    #[inline(always)]
    pub(super) fn lock_and_enter(
        &mut self,
        pinned: &Pinned<Plat>,
        me: &'static Goroutine<Plat>,
        generation: WaitGeneration,
    ) -> bool {
        let (header, side) = (self.header, self.side);
        let Some(held) = header.try_lock(pinned) else { return false };
        if header.may_be_ready(side) {
            unlock(held);
            return false;
        }
        mem::forget(held);
        self.enter(header.queue(side), me, generation);
        true
    }

    /// Removes the calling G from the channel's queue. The lock has been held since the G was queued.
    #[cold]
    pub(super) fn take_back(&self) {
        self.header.queue(self.side).remove(self.waiter());
    }

    /// Removes the calling G from the channel's queue, if the G is still queued. No other G accesses the waiter
    /// afterwards.
    #[inline(always)]
    pub(super) fn leave_queue(&self, pinned: &Pinned<Plat>) {
        self.header.lock(pinned).remove(self.side, self.waiter());
    }

    /// The waiter of a case that has been queued.
    #[inline(always)]
    pub(super) fn waiter(&self) -> &'static Waiter<Plat> {
        // SAFETY: `enter` initialised the waiter, which is on the stack of a G. That G stays in the select until
        // each of its waiters has been removed from its queue under the lock, by the G or by the waker. A waker does
        // not access the waiter after it has readied the G.
        unsafe { &*self.waiter.as_ptr() }
    }

    /// Records the outcome of this case, whose waiter has woken the G.
    #[inline]
    pub(crate) fn finish(&self) {
        let moved = self.waiter().outcome.load(Ordering::Relaxed) == MOVED;
        self.target.finish(moved);
    }
}

impl<Plat: Platform> fmt::Debug for Case<'_, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("side", &self.side).finish_non_exhaustive()
    }
}

impl<T, Plat: Platform> fmt::Debug for RecvCase<'_, T, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvCase").field("outcome", &self.outcome.get()).finish_non_exhaustive()
    }
}
