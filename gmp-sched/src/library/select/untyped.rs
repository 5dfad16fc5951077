//! A case as a select sees it: its value is of any type.

use core::fmt;
use core::mem::{self, ManuallyDrop, MaybeUninit};
use core::ptr;

use crate::base::atomic::Ordering;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::wait_reason::Awaited;
use crate::entities::waiter::Waiter;
use crate::library::chan::{Attempt, Header, Held, MOVED, Side};
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// The operations of a select on a case, independent of the type of the value.
///
/// # Safety
///
/// The first field of the implementor is the value slot, an [`UnsafeCell`](core::cell::UnsafeCell) that the value is
/// moved from or to. [`Case`] uses the address of the implementor as the address of the value slot.
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

/// A case of a select, independent of the type of its value; see [`Select`](super::Select) for an example. Made by
/// [`RecvCase::case`](super::RecvCase::case), [`SendCase::case`](super::SendCase::case) and
/// [`SendFromCase::case`](super::SendFromCase::case). Go: `scase`.
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

/// Releases a channel's lock. Outlined, to keep the fast path small.
#[cold]
#[inline(never)]
fn unlock<Plat: Platform>(held: Held<'_, Plat>) {
    drop(held);
}
