//! The timers of a P, and the time of the earliest of them, which can be read without a lock.
//!
//! Go's `timers` (runtime/time.go) has a heap per P; here it is a [timing wheel](crate::base::timing_wheel). An M that
//! finds nothing else to do also runs the due timers of other Ps. (`engine::timers` arms and fires timers.)
//!
//! The *timer owner* of a P makes sure that the timers of the P fire in time. If an M holds the P, that M is the timer
//! owner: it checks the timers when an interrupt comes, or, on a platform without timer interrupts, whenever it picks a
//! G. For an idle P, the timer owner is the timekeeper, the idle M that parks with a deadline (see `timekeeper`). For a
//! P whose M is in a system call, the timer owner is sysmon, which retakes the P when a timer is due. If an M sets a
//! timer that is due before all other timers of its P, the M notifies the timer owner.
//!
//! A [`Timer`] contains its links and its time, so setting a timer does not allocate and cannot fail. A stopped timer
//! is removed at once; Go only marks it and removes it later. So a stopped timer costs almost nothing. At most, the
//! timer owner makes one unnecessary check at the time when the timer would have been due. Whether a timer has fired is
//! decided under the wheel's lock.

use core::fmt;

use crate::base::atomic::{AtomicU64, Ordering, StaticU32};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
#[cfg(feature = "synctest")]
use crate::base::list::{Linked, List};
use crate::base::points::Site;
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::base::timing_wheel::{Timed, TimingWheel, WheelEntry};
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::processor::Processor;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// A timer that fires once. Like Gs, timers are never freed, only reused. Go: `timer`.
///
/// The fields are written under the lock of the [`Timers`] that contain this timer, or while the timer is not set.
#[doc(alias = "timer")]
pub(crate) struct Timer<Plat: Platform> {
    /// The [`Timers`] that contain this timer, or contained it last.
    pub(crate) timers: AtomicRef<Timers<Plat>>,
    entry: WheelEntry<Self>,
    action: StoredAction<Plat>,
}

impl<Plat: Platform> Timed for Timer<Plat> {
    fn entry(&self) -> &WheelEntry<Self> {
        &self.entry
    }
}

impl<Plat: Platform> Timer<Plat> {
    pub(crate) fn new() -> Self {
        Self { timers: AtomicRef::none(), entry: WheelEntry::unlinked(), action: StoredAction::none() }
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.entry.is_linked()
    }

    /// Removes the timer; returns whether it was set. If the caller had set the timer and this function returns
    /// `false`, an M has taken the timer's action to run it, and may or may not have run it yet.
    ///
    /// The caller is pinned. Otherwise it could be preempted while it holds the lock of the timers. The code of the
    /// preemption runs due timers, so it would wait for this lock for ever.
    pub(crate) fn cancel(&'static self, _pinned: &Pinned<Plat>) -> bool {
        loop {
            let Some(timers) = self.timers.load(Ordering::Relaxed) else { return false };
            Plat::point_before_lock(Site::Timers);
            let mut wheel = timers.wheel.lock();
            // If the P of `timers` was taken out of use in the meantime, its timers now belong to another P.
            if !self.timers.load(Ordering::Relaxed).is_some_and(|now| core::ptr::eq(now, timers)) {
                continue;
            }
            if !self.is_armed() {
                return false;
            }
            wheel.remove(self);
            timers.publish(&wheel);
            return true;
        }
    }
}

/// What an M does when it finds that a timer is due. The M is pinned, and the action must not block or allocate.
#[derive(Debug)]
pub(crate) enum Action<Plat: Platform> {
    /// End the wait of a G and ready it, unless another waker has done so.
    Wake(&'static Goroutine<Plat>, WaitGeneration),
    /// Fire a timer of a program, unless it has been set again or stopped since.
    Fire(&'static FireTarget<Plat>, u64),
}

impl<Plat: Platform> Clone for Action<Plat> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Plat: Platform> Copy for Action<Plat> {}

/// What a timer of a program (`library::time`) does when it fires. A P's timers, which are in a lower layer, call the
/// library's timers only through this trait. Go: the function of a `timer`.
pub(crate) trait Fire<Plat: Platform>: Sync {
    /// Fires the timer at the time `now`. Does nothing if `setting` is outdated, because the timer has been set again
    /// or stopped. Called while pinned, without the lock of the timers; must not block or allocate. Returns the G that
    /// this call has readied, if any; the caller runs or enqueues that G.
    fn fire(&'static self, pinned: &Pinned<Plat>, setting: u64, now: Instant) -> Option<&'static Goroutine<Plat>>;

    /// Whether firing the timer would do anything: whether a G waits for it, or it runs a function. The answer is exact
    /// while no G runs. Takes no lock.
    fn is_awaited(&self) -> bool;

    /// Whether the timer was made in a bubble. The caller holds the lock of the timer's channel.
    fn is_in_bubble(&self) -> bool;

    /// Called under the lock of the timer's channel before a receive, while the timer is dormant. If the timer is due,
    /// puts its tick into the channel. Otherwise arms the timer, because the receiver may be about to wait. (If the
    /// caller has no P, it cannot wait, and the timer stays dormant.)
    fn settle(&'static self);
}

/// A reference to a [`Fire`], as a sized type that an [`AtomicRef`] can refer to.
pub(crate) struct FireTarget<Plat: Platform>(pub(crate) &'static dyn Fire<Plat>);

/// An [`Action`] in atomics, written and read under the lock of the timers.
struct StoredAction<Plat: Platform> {
    /// The G of [`Action::Wake`].
    goroutine: AtomicRef<Goroutine<Plat>>,
    /// The target of [`Action::Fire`].
    slot: AtomicRef<FireTarget<Plat>>,
    /// The second field of [`Action::Wake`] (a wait generation) or of [`Action::Fire`] (the number of a setting).
    number: AtomicU64,
}

impl<Plat: Platform> StoredAction<Plat> {
    fn none() -> Self {
        Self { goroutine: AtomicRef::none(), slot: AtomicRef::none(), number: AtomicU64::new(0) }
    }

    #[inline(always)]
    fn set(&self, action: Action<Plat>) {
        let (goroutine, slot, number) = match action {
            Action::Wake(goroutine, generation) => (Some(goroutine), None, generation.0),
            Action::Fire(slot, setting) => (None, Some(slot), setting),
        };
        self.goroutine.store(goroutine, Ordering::Relaxed);
        self.slot.store(slot, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
    }

    #[inline(always)]
    fn get(&self) -> Action<Plat> {
        let number = self.number.load(Ordering::Relaxed);
        match (self.goroutine.load(Ordering::Relaxed), self.slot.load(Ordering::Relaxed)) {
            (Some(goroutine), _) => Action::Wake(goroutine, WaitGeneration(number)),
            (None, slot) => Action::Fire(slot.expect("a timer that is set has an action"), number),
        }
    }
}

/// The wheel of the timers of a P or of a bubble.
pub(crate) type Wheel<Plat> = TimingWheel<Timer<Plat>>;

/// The armed timers of one P or of one bubble. Go: `timers`.
#[doc(alias = "timers")]
pub(crate) struct Timers<Plat: Platform> {
    wheel: Lock<Wheel<Plat>, Plat>,
    earliest: AtomicU64,
    /// The number of timers, for reports. No protocol depends on it, so it is not a part of the models.
    length: StaticU32,
}

impl<Plat: Platform> Timers<Plat> {
    pub(crate) fn new() -> Result<Self, OutOfResources> {
        Ok(Self {
            wheel: Lock::new(TimingWheel::new()?),
            earliest: AtomicU64::new(Instant::NEVER.as_nanos()),
            length: StaticU32::new(0),
        })
    }

    /// A lower bound of the time of the first timer; [`Instant::NEVER`] if there is none. (It may be too early after
    /// the first timer was cancelled: see [`TimingWheel::earliest`].) Takes no lock; callable from interrupts.
    #[inline(always)]
    pub(crate) fn earliest(&self) -> Instant {
        Instant::from_nanos(self.earliest.load(Ordering::Relaxed))
    }

    /// Sets a timer; returns whether it is now the earliest. If so, the caller must notify the timer owner, which
    /// relies on [`earliest`](Self::earliest).
    #[inline]
    pub(crate) fn insert(&'static self, when: Instant, timer: &'static Timer<Plat>, action: Action<Plat>) -> bool {
        Plat::point_before_lock(Site::Timers);
        let mut wheel = self.wheel.lock();
        timer.timers.store(Some(self), Ordering::Relaxed);
        timer.action.set(action);
        let when = wheel.insert(timer, when);
        self.length.store(wheel.len(), Ordering::Relaxed);
        let is_earliest = when < self.earliest();
        if is_earliest {
            self.earliest.store(when.as_nanos(), Ordering::Relaxed);
        }
        is_earliest
    }

    /// Moves all timers from `other` to `self`. Called while the world is stopped. Go: `timers.take`.
    pub(crate) fn adopt(&'static self, other: &Self) {
        let (mut wheel, mut others) = (self.wheel.lock(), other.wheel.lock());
        others.drain(|timer, when| {
            timer.timers.store(Some(self), Ordering::Relaxed);
            wheel.insert(timer, when);
        });
        other.publish(&others);
        self.publish(&wheel);
    }

    /// The number of timers. Takes no lock; callable from anywhere.
    pub(crate) fn len(&self) -> u32 {
        self.length.load(Ordering::Relaxed)
    }

    /// Publishes what can be read without the lock.
    #[inline(always)]
    fn publish(&self, wheel: &Wheel<Plat>) {
        self.earliest.store(wheel.earliest().as_nanos(), Ordering::Relaxed);
        self.length.store(wheel.len(), Ordering::Relaxed);
    }

    /// Whether firing any of these timers would make a G runnable. The answer is exact while no G runs.
    pub(crate) fn is_any_awaited(&self) -> bool {
        // The lock is taken only if there are timers, because this is called whenever all Ms are idle.
        self.earliest() != Instant::NEVER
            && self.wheel.lock().has_element(|timer| match timer.action.get() {
                Action::Wake(..) => true,
                Action::Fire(target, _) => target.0.is_awaited(),
            })
    }

    /// Takes the earliest timer out of the wheel if it is due, and returns its action.
    #[inline(always)]
    pub(crate) fn pop_due(&self, now: Instant) -> Option<Action<Plat>> {
        if self.earliest() > now {
            return None;
        }
        Plat::point_before_lock(Site::Timers);
        let mut wheel = self.wheel.lock();
        let action = wheel.pop_due(now).map(|(timer, _)| timer.action.get());
        self.publish(&wheel);
        action
    }
}

impl<Plat: Platform> Processor<Plat> {
    /// Takes the earliest timer of this P if it is due, and returns its action. `by` is the P that the caller holds, if any.
    #[inline(always)]
    pub(crate) fn pop_due_timer(&self, by: Option<&Self>, now: Instant) -> Option<Action<Plat>> {
        let action = self.timers.pop_due(now)?;
        if let Some(by) = by {
            by.tracer.note::<Plat>(EventKind::Timer, None, self.id().get().into());
        }
        Some(action)
    }
}

/// Methods that only the timers of a bubble need.
#[cfg(feature = "synctest")]
impl<Plat: Platform> Timers<Plat> {
    /// Puts the timers that are due at `now` into a random order. `bit` returns a random bit. Afterwards all of them
    /// are due at `now`, even if they were due earlier.
    pub(crate) fn shuffle_due(&self, now: Instant, bit: impl FnMut() -> bool) {
        let mut wheel = self.wheel.lock();
        let mut due = List::<Timer<Plat>>::new();
        while let Some((timer, _)) = wheel.pop_due(now) {
            due.push_back(timer);
        }
        due.shuffle(bit);
        while let Some(timer) = due.pop_front() {
            timer.link().store(None, Ordering::Relaxed);
            wheel.insert(timer, now);
        }
        self.publish(&wheel);
    }

    /// Resets the wheel. Called when the bubble's clock has been set back. The caller ensures that no timer is set at
    /// this moment.
    pub(crate) fn restart(&self) {
        self.wheel.lock().restart();
    }
}

/// While due timers are [shuffled](Timers::shuffle_due), they are linked into a list.
#[cfg(feature = "synctest")]
impl<Plat: Platform> Linked for Timer<Plat> {
    fn link(&self) -> &AtomicRef<Self> {
        self.entry.link()
    }
}

impl<Plat: Platform> fmt::Debug for Timer<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("armed", &self.is_armed()).finish_non_exhaustive()
    }
}

impl<Plat: Platform> fmt::Debug for Timers<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("earliest", &self.earliest()).finish_non_exhaustive()
    }
}

impl<Plat: Platform> fmt::Debug for FireTarget<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FireTarget").field(&core::ptr::from_ref(self.0)).finish()
    }
}
