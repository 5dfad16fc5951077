//! The timers of a P: points in time with what is to be done then, and the earliest of them, known without a lock.
//!
//! Go: `timers` (runtime/time.go): one heap per P, here a [timing wheel](crate::base::timing_wheel); other Ps may run them when
//! they find nothing else to do.
//! Who sees to it that a timer is not slept past is the *keeper*: while a P runs, the M that holds it (by interrupt
//! where the platform has one, else whenever it picks a G); while it is idle, the idle M that parks with a deadline
//! (the timekeeper, see `idle`). Whoever makes a P's earliest timer earlier tells the keeper.
//!
//! A [`Timer`] holds what the wheel has to know of it: setting one allocates nothing and cannot fail, and it is taken out at
//! once; Go marks it and takes it out later. A timer that was stopped costs nothing afterwards, except that the keeper may
//! look once when it would have been due; and "has it fired?" has one answer, given under the wheel's lock.

use core::fmt;
use core::ops::DerefMut;
use core::time::Duration;

use crate::base::atomic::{AtomicU64, Ordering};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::base::timing_wheel::{Place, Timed, TimingWheel};
use crate::entities::goroutine::{Goroutine, Ticket};
use crate::platform::{Pinned, Platform};

/// Something that can be set for one point in time. Like Gs, timers are never freed, only reused. Go: `timer`.
///
/// All is written under the lock of the timers that it is set in, or while it is set nowhere.
#[doc(alias = "timer")]
pub(crate) struct Timer<P: Platform> {
    /// The timers it is one of, or was last.
    pub(crate) home: AtomicRef<Timers<P>>,
    place: Place<Self>,
    /// Nanoseconds from one firing to the next, 0 if it fires once.
    period: AtomicU64,
    action: StoredAction<P>,
}

impl<P: Platform> Timed for Timer<P> {
    fn place(&self) -> &Place<Self> {
        &self.place
    }
}

impl<P: Platform> Timer<P> {
    pub(crate) fn new() -> Self {
        Self {
            home: AtomicRef::none(),
            place: Place::nowhere(),
            period: AtomicU64::new(0),
            action: StoredAction::none(),
        }
    }

    /// From now on it fires again each time so long after it was due, until it is cancelled; zero is once. The caller
    /// is who arms and cancels it, and it is not armed.
    pub(crate) fn set_period(&self, period: Duration) {
        let nanoseconds = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        self.period.store(nanoseconds, Ordering::Relaxed);
    }

    /// When it is due again that was due at `when` and fires at `now`; `None` if it fires once. Firings that should have
    /// been meanwhile are left out.
    #[inline]
    fn next(&self, when: Instant, now: Instant) -> Option<Instant> {
        let period = self.period.load(Ordering::Relaxed);
        if period == 0 {
            return None;
        }
        let missed = (now.as_nanos() - when.as_nanos()) / period;
        let step = period.saturating_mul(missed.saturating_add(1));
        Some(Instant::from_nanos(when.as_nanos().saturating_add(step)).min(Instant::LAST))
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.place.is_somewhere()
    }

    /// Takes the timer back; tells whether it was armed. If not, its action has been begun or done.
    ///
    /// The caller is pinned: whoever was preempted with the lock in hand would be waited for by the preemption itself,
    /// which runs timers.
    pub(crate) fn cancel(&'static self, _pinned: &Pinned<P>) -> bool {
        loop {
            let Some(home) = self.home.load(Ordering::Relaxed) else { return false };
            P::point(Site::Timers);
            let mut wheel = home.wheel.lock();
            // Ps that are taken out of use give their timers away.
            if !self.home.load(Ordering::Relaxed).is_some_and(|now| core::ptr::eq(now, home)) {
                continue;
            }
            if !self.is_armed() {
                return false;
            }
            wheel.remove(self);
            home.publish_earliest(&wheel);
            return true;
        }
    }
}

/// What is done when a timer is due: pinned, on the M that comes upon it, briefly, without blocking or allocating.
/// Never while a G is leaving that holds a lock until the far side: it may be the one that is taken here.
#[derive(Debug)]
pub(crate) enum Action<P: Platform> {
    /// Ends a G's wait and makes it runnable, unless somebody else has ended it.
    Wake(&'static Goroutine<P>, Ticket),
    /// Fires a program's timer, if that setting of it still stands.
    Fire(&'static FireTarget<P>, u64),
    /// Lets a G run on that is runnable: it was there because of a timer, and another timer displaced it.
    Resume(&'static Goroutine<P>),
}

impl<P: Platform> Clone for Action<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Action<P> {}

/// A timer of a program, of which the timers of a P know only that it can fire. Go: the function of a `timer`.
pub(crate) trait Fire<P: Platform>: Sync {
    /// Does what the timer is for, if `setting` is still its setting. The time is `now`. Called pinned, without the lock of the
    /// timers; must not block or allocate. Returns the G that this made runnable, for the caller to run or to queue.
    fn fire(&'static self, pinned: &Pinned<P>, setting: u64, now: Instant) -> Option<&'static Goroutine<P>>;
}

/// A reference to a [`Fire`] that an [`AtomicRef`] can refer to.
pub(crate) struct FireTarget<P: Platform>(pub(crate) &'static dyn Fire<P>);

/// An [`Action`], to be read by whoever holds the lock under which it was written.
struct StoredAction<P: Platform> {
    /// Of `Wake` and `Resume`.
    goroutine: AtomicRef<Goroutine<P>>,
    /// Of `Fire`.
    slot: AtomicRef<FireTarget<P>>,
    /// The ticket of `Wake`, the setting of `Fire`.
    number: AtomicU64,
}

impl<P: Platform> StoredAction<P> {
    /// The number of `Resume`: no ticket.
    const RESUME: u64 = u64::MAX;

    fn none() -> Self {
        Self { goroutine: AtomicRef::none(), slot: AtomicRef::none(), number: AtomicU64::new(0) }
    }

    #[inline(always)]
    fn set(&self, action: Action<P>) {
        let (goroutine, slot, number) = match action {
            Action::Wake(goroutine, ticket) => (Some(goroutine), None, ticket.0),
            Action::Fire(slot, setting) => (None, Some(slot), setting),
            Action::Resume(goroutine) => (Some(goroutine), None, Self::RESUME),
        };
        self.goroutine.store(goroutine, Ordering::Relaxed);
        self.slot.store(slot, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
    }

    #[inline(always)]
    fn get(&self) -> Action<P> {
        let number = self.number.load(Ordering::Relaxed);
        match (self.goroutine.load(Ordering::Relaxed), self.slot.load(Ordering::Relaxed)) {
            (Some(goroutine), _) if number == Self::RESUME => Action::Resume(goroutine),
            (Some(goroutine), _) => Action::Wake(goroutine, Ticket(number)),
            (None, slot) => Action::Fire(slot.expect("a timer that is set has an action"), number),
        }
    }
}

/// What the timers of a P are in.
pub(crate) type Wheel<P> = TimingWheel<Timer<P>>;

/// The timers of one P. Go: `timers`.
#[doc(alias = "timers")]
pub(crate) struct Timers<P: Platform> {
    wheel: Lock<Wheel<P>, P>,
    earliest: AtomicU64,
}

impl<P: Platform> Timers<P> {
    pub(crate) fn new() -> Result<Self, OutOfResources> {
        Ok(Self { wheel: Lock::new(TimingWheel::new()?), earliest: AtomicU64::new(Instant::NEVER.as_nanos()) })
    }

    /// No timer is due before; [`Instant::NEVER`] if there is none. (Too early at times, when the first was cancelled: see
    /// [`TimingWheel::earliest`].) Takes no lock; callable from interrupts.
    #[inline(always)]
    pub(crate) fn earliest(&self) -> Instant {
        Instant::from_nanos(self.earliest.load(Ordering::Relaxed))
    }

    /// Takes the lock.
    #[inline(always)]
    pub(crate) fn lock(&self) -> impl DerefMut<Target = Wheel<P>> {
        P::point(Site::Timers);
        self.wheel.lock()
    }

    /// Sets a timer; tells whether the keeper, which goes by [`earliest`](Self::earliest), has to look sooner now.
    #[inline]
    pub(crate) fn insert(&'static self, when: Instant, timer: &'static Timer<P>, action: Action<P>) -> bool {
        self.insert_locked(&mut self.lock(), when, timer, action)
    }

    /// [`insert`](Self::insert) for a caller that has the lock.
    #[inline(always)]
    pub(crate) fn insert_locked(
        &'static self,
        wheel: &mut Wheel<P>,
        when: Instant,
        timer: &'static Timer<P>,
        action: Action<P>,
    ) -> bool {
        timer.home.store(Some(self), Ordering::Relaxed);
        timer.action.set(action);
        let when = wheel.insert(timer, when);
        let is_earliest = when < self.earliest();
        if is_earliest {
            self.earliest.store(when.as_nanos(), Ordering::Relaxed);
        }
        is_earliest
    }

    /// Takes over the timers of `other`. Called with the world stopped. Go: `timers.take`.
    pub(crate) fn adopt(&'static self, other: &Self) {
        let (mut wheel, mut others) = (self.wheel.lock(), other.wheel.lock());
        others.drain(|timer, when| {
            timer.home.store(Some(self), Ordering::Relaxed);
            wheel.insert(timer, when);
        });
        other.publish_earliest(&others);
        self.publish_earliest(&wheel);
    }

    /// Starts over with a clock that has gone back. There are none.
    pub(crate) fn restart(&self) {
        self.wheel.lock().restart();
    }

    /// How many there are, unless somebody is at them. Callable from everywhere.
    pub(crate) fn try_len(&self) -> Option<usize> {
        self.wheel.try_lock().map(|wheel| wheel.len())
    }

    #[inline(always)]
    fn publish_earliest(&self, wheel: &Wheel<P>) {
        self.earliest.store(wheel.earliest().as_nanos(), Ordering::Relaxed);
    }

    /// Takes the earliest timer that is due.
    pub(crate) fn pop_due(&self, now: Instant) -> Option<Action<P>> {
        if self.earliest() > now {
            return None;
        }
        self.pop_due_if(&mut self.lock(), now, |_| true)
    }

    /// Takes the earliest timer that is due, for a caller that has seen that there is one, if `is_wanted` says so, which is
    /// asked under the lock.
    #[inline(always)]
    pub(crate) fn pop_due_if(
        &self,
        wheel: &mut Wheel<P>,
        now: Instant,
        is_wanted: impl FnOnce(Action<P>) -> bool,
    ) -> Option<Action<P>> {
        let due = wheel.first_due(now).map(|first| (first.element.action.get(), first));
        let action = match due {
            Some((action, first)) if is_wanted(action) => {
                let (timer, when) = (first.element, first.when());
                wheel.take(first);
                // Only a program's timer fires again.
                if let Action::Fire(..) = action
                    && let Some(next) = timer.next(when, now)
                {
                    wheel.insert(timer, next);
                }
                Some(action)
            }
            _ => None,
        };
        self.publish_earliest(wheel);
        action
    }
}

impl<P: Platform> fmt::Debug for Timer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("armed", &self.is_armed()).finish_non_exhaustive()
    }
}

impl<P: Platform> fmt::Debug for Timers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("earliest", &self.earliest()).finish_non_exhaustive()
    }
}

impl<P: Platform> fmt::Debug for FireTarget<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FireTarget").field(&core::ptr::from_ref(self.0)).finish()
    }
}
