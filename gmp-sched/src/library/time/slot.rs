//! What a timer of a program is inside: never freed, only reused, so that a firing on its way finds it.
//!
//! A firing is three steps: taken out of the timers under their lock; then, under the slot's lock, compared with the
//! setting's number and turned into a tick or a started G; then, without a lock, the G is made runnable that was waiting
//! for the tick. Whoever stops or sets the timer changes the number under the slot's lock, and so a firing of an earlier
//! setting is void however late it comes.
//!
//! Ticks are sent to a channel with room for one, as in Go; but the channel is a part of the slot, and what receives from
//! it borrows the timer. So a select takes timers as it takes any receiver, nobody receives from a timer that is gone, and
//! the channel serves the next timer when the slot does.

use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::time::Duration;

use crate::base::list::Linked;
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::engine::caller::Here;
use crate::engine::park::make_runnable;
use crate::engine::timers::{self, Action, arm_in};
use crate::entities::goroutine::Goroutine;
use crate::entities::scheduler::Scheduler;
use crate::library::chan::Channel;
use crate::library::time::Instant;
use crate::lifecycle::spawn::start_prepared;
use crate::platform::{OutOfResources, Pinned, Platform};
use crate::synctest::Home;

/// A timer with what it is set to do. Go: `timer` with its channel or function.
pub(crate) struct TimerSlot<P: Platform> {
    timer: timers::Timer<P>,
    /// To which it goes back.
    scheduler: &'static Scheduler<P>,
    link: AtomicRef<Self>,
    pub(super) setting: Lock<Setting<P>, P>,
    /// Where it sends that it has fired, and when. Its lock may be taken under that of the setting.
    ticks: Channel<Instant, P>,
}

/// What a timer is set to do, guarded by its slot's lock. The lock of a P's timers may be taken under it.
pub(super) struct Setting<P: Platform> {
    /// Which setting this is; never the same twice in one slot. Go: `timer.seq`.
    pub(super) number: u64,
    /// It is to fire, and may be about to.
    is_set: bool,
    /// It fires again and again.
    repeats: bool,
    /// Where it was made, whose clock it goes by. The channel knows, too, whether that is a bubble.
    pub(super) home: Home<P>,
    /// When it fired last.
    fired: Instant,
    /// The G to be started, for one that runs a function.
    pub(super) prepared: Option<&'static Goroutine<P>>,
}

impl<P: Platform> TimerSlot<P> {
    fn new(scheduler: &'static Scheduler<P>) -> Result<Self, OutOfResources> {
        let setting = Setting {
            number: 0,
            is_set: false,
            repeats: false,
            home: Home::none(),
            fired: Instant::from_nanos(0),
            prepared: None,
        };
        Ok(Self {
            timer: timers::Timer::new(),
            scheduler,
            link: AtomicRef::none(),
            setting: Lock::new(setting),
            ticks: Channel::new(1, false, Home::none())?,
        })
    }

    /// A slot that nobody uses, for a timer that is made here.
    ///
    /// # Panics
    ///
    /// The caller is not on an M with a P.
    #[track_caller]
    pub(crate) fn take() -> Result<&'static Self, OutOfResources> {
        let Here { pinned: _pinned, machine, .. } = Here::<P>::new();
        let scheduler = machine.scheduler();
        let unused = scheduler.timer_slots.lock().pop_front();
        let slot = match unused {
            Some(slot) => slot,
            None => {
                let mut place = Vec::new();
                place.try_reserve_exact(1).map_err(|_| OutOfResources)?;
                place.push(Self::new(scheduler)?);
                &place.leak()[0]
            }
        };
        let home = Home::here();
        slot.setting.lock().home = home;
        slot.ticks.header.set_waits_within_bubble(home.is_bubble());
        Ok(slot)
    }

    /// Gives the slot back, which is disarmed and which nobody waits for. Callable on any thread.
    pub(super) fn give_back(&'static self, _pinned: &Pinned<P>) {
        self.scheduler.timer_slots.lock().push_front(self);
    }

    /// Has it fire at `when`, and then again each `period` unless that is zero. The slot is disarmed.
    pub(super) fn arm(&'static self, here: &Here<P>, setting: &mut Setting<P>, when: Instant, period: Duration) {
        setting.number += 1;
        self.timer.set_period(period);
        setting.is_set = when != Instant::NEVER;
        setting.fired = Instant::from_nanos(0);
        setting.repeats = !period.is_zero();
        if setting.is_set {
            arm_in(&here.pinned, setting.home.bubble(), when, &self.timer, Action::Fire(self, setting.number));
        }
    }

    /// Takes back whatever it was to do and has not yet done: a firing to come, or a tick that nobody has taken. Tells
    /// whether there was something.
    pub(super) fn disarm(&'static self, pinned: &Pinned<P>, setting: &mut Setting<P>) -> bool {
        setting.number += 1;
        // If it is not there any more it is about to fire, which is void from here on. Go: `isSending`.
        self.timer.cancel(pinned);
        let was_set = mem::take(&mut setting.is_set);
        self.ticks.try_recv().is_ok() || was_set
    }

    /// [`disarm`](Self::disarm), then [`arm`](Self::arm).
    ///
    /// # Panics
    ///
    /// The caller is not on an M with a P; nothing has changed.
    #[track_caller]
    pub(crate) fn set(&'static self, when: Instant, period: Duration) -> bool {
        let here = Here::<P>::new();
        let mut setting = self.setting.lock();
        let was_set = self.disarm(&here.pinned, &mut setting);
        self.arm(&here, &mut setting, when, period);
        was_set
    }

    /// [`disarm`](Self::disarm) under the lock. Callable on any thread.
    pub(crate) fn stop(&'static self) -> bool {
        let pinned = Pinned::<P>::new();
        self.disarm(&pinned, &mut self.setting.lock())
    }

    /// Queues a waiter, which has a place for a tick, as one that receives.
    #[cfg(all(test, gmp_loom))]
    pub(crate) fn queue(&'static self, waiter: &'static crate::library::waiter::Waiter<P>) {
        let pinned = Pinned::<P>::new();
        let _held = self.ticks.header.lock(&pinned);
        self.ticks.header.queue(crate::library::chan::Side::Receive).push_back(waiter);
    }

    /// The tick that nobody has taken yet.
    #[track_caller]
    pub(crate) fn try_take(&'static self) -> Option<Instant> {
        self.ticks().try_recv().ok()
    }

    /// Where it was made. Panics if that is a bubble in which the calling G is not.
    #[track_caller]
    pub(super) fn check_bubble(&self, what: &str) -> Home<P> {
        let home = {
            let _pinned = Pinned::<P>::new();
            self.setting.lock().home
        };
        assert!(!home.is_foreign(), "{what} from outside bubble");
        home
    }

    /// Where its ticks are to be received, at once.
    #[track_caller]
    pub(crate) fn ticks(&'static self) -> &'static Channel<Instant, P> {
        let home = self.check_bubble("receive on synctest channel");
        if !P::TIMER_INTERRUPTS && !home.is_bubble() {
            // The caller may ask again and again without ever letting the scheduler look. Go: `maybeRunChan`.
            self.timer.run_if_due(&Pinned::new());
        }
        &self.ticks
    }
}

/// What is done when the timer of `slot` is due that was armed with setting `number`, which it is `now`. Pinned; gives the G
/// that this made runnable, for the caller to run or to queue.
pub(crate) fn fire<P: Platform>(
    pinned: &Pinned<P>,
    slot: &'static TimerSlot<P>,
    number: u64,
    now: Instant,
) -> Option<&'static Goroutine<P>> {
    let mut setting = slot.setting.lock();
    // One that repeats may have been overtaken by its next firing, on another M: what comes later is not to say earlier.
    if setting.number != number || now < setting.fired {
        return None;
    }
    setting.fired = now;
    setting.is_set = setting.repeats;
    if let Some(goroutine) = setting.prepared.take() {
        let bubble = setting.home.bubble();
        drop(setting);
        return start_prepared(pinned, goroutine, bubble);
    }
    // There is room for one; the later ones are dropped.
    let waiting = slot.ticks.send_or_drop(pinned, now);
    drop(setting);
    waiting.and_then(|goroutine| make_runnable(pinned, goroutine))
}

impl<P: Platform> Linked for TimerSlot<P> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<P: Platform> fmt::Debug for TimerSlot<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerSlot").field("timer", &self.timer).finish_non_exhaustive()
    }
}
