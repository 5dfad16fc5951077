//! The reusable part of a program's timer. A slot is never freed, so that a firing under way can still access it.
//!
//! As in Go, ticks are received from a channel, so a select receives from timers as from any channel. The channel is a
//! part of the slot, and is reused with it. Receiving borrows the timer, so no G receives from a timer that has been
//! dropped.
//!
//! # When a timer is armed
//!
//! A timer that is set becomes *armed*, that is, joins the timers of a P, only when a G receives from it. Until then it
//! is *dormant*, and costs no interrupt. All changes are made under the lock of the channel:
//!
//! | state | when | a receive |
//! |---|---|---|
//! | off | the timer was stopped, or has fired and its tick was received | waits |
//! | dormant | set, but not armed | computes from the clock whether there is a tick; if there is none, arms the timer, and may then wait |
//! | armed | set to fire, or about to fire | waits |
//!
//! The state dormant is a bit of the channel ([`Held::set_dormant`](crate::library::chan::Held::set_dormant)), so that
//! receives from other channels need no check. If a wait ends for another reason than the tick, the timer stays armed:
//! in a loop around a select, the timer of an arm that is never taken is armed once, not in each iteration. When an
//! armed timer fires and nobody waits, it becomes dormant, and its tick can be received later. (Go: `blockTimerChan`,
//! `maybeRunChan`. Go disarms a timer when the last wait for it ends.)
//!
//! # Firing
//!
//! A timer fires in three steps. First the timer is removed from its P's timers under their lock. Then, under the locks
//! of the channel and of the slot, the generation for which the timer was armed is compared with the generation of the
//! slot. If they are equal, a tick is sent, or the G that is to run the function is taken from the slot. Then, without
//! a lock, the G that waited for the tick is readied, or the G of the function is started. Stopping or setting the
//! timer increments the generation, so a firing of an earlier setting has no effect, however late it comes.

mod setting;

use core::fmt;
use core::mem::{self, ManuallyDrop};
use core::time::Duration;

use spin::Once;

pub(super) use self::setting::Setting;
use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::error::OutOfResources;
use crate::base::forever::make_forever;
use crate::base::instant::Instant;
use crate::base::list::{Linked, List};
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::engine::ready::make_runnable;
use crate::engine::timers::arm_in;
use crate::entities::bubble::BubbleRef;
use crate::entities::current::CurrentProcessor;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::timers::{self, Action, Fire, FireTarget};
use crate::library::chan::{Channel, Held, Side, unlock_and_ready};
use crate::lifecycle::new_goroutine::start_prepared;
use crate::platform::{Pinned, Platform};

/// The free list of a scheduler's timer slots.
type Unused<Plat> = Lock<List<TimerSlot<Plat>>, Plat>;

/// A timer with its action. Go: `timer` with its channel or function.
pub(crate) struct TimerSlot<Plat: Platform> {
    timer: timers::Timer<Plat>,
    /// The free list to which the slot returns.
    unused: &'static Unused<Plat>,
    link: AtomicRef<Self>,
    /// A reference to this slot, to be stored among the timers of a P and in the channel. Made with the slot.
    target: Once<FireTarget<Plat>>,
    /// Whether the timer runs a function, so that its ticks have no receivers.
    runs_function: AtomicBool,
    /// If the lock of `ticks` is also needed, it is taken first.
    pub(super) setting: Lock<Setting<Plat>, Plat>,
    /// The ticks are received from this channel. Its buffer has a tick only during a receive.
    ticks: Channel<Instant, Plat>,
}

impl<Plat: Platform> TimerSlot<Plat> {
    fn new(unused: &'static Unused<Plat>) -> Result<Self, OutOfResources> {
        let setting = Setting {
            number: 0,
            when: Instant::NEVER,
            period: Duration::ZERO,
            is_armed: false,
            bubble: BubbleRef::none(),
            prepared: None,
        };
        Ok(Self {
            timer: timers::Timer::new(),
            unused,
            link: AtomicRef::none(),
            target: Once::new(),
            runs_function: AtomicBool::new(false),
            setting: Lock::new(setting),
            ticks: Channel::new(1, BubbleRef::none())?,
        })
    }

    /// Returns a slot for a timer that the caller makes: an unused slot or, if there is none, a new one.
    ///
    /// # Panics
    ///
    /// The caller is not on an M with a P.
    #[track_caller]
    pub(crate) fn take() -> Result<&'static Self, OutOfResources> {
        let CurrentProcessor { pinned, machine, .. } = CurrentProcessor::<Plat>::new();
        // The caller is not pinned while memory is allocated.
        drop(pinned);
        let unused = machine.scheduler().timer_slots.get_or_make(|| Unused::new(List::new()))?;
        let pinned = Pinned::<Plat>::of_scheduler();
        let first = unused.lock().pop_front();
        drop(pinned);
        let slot = match first {
            Some(slot) => slot,
            None => {
                let slot = make_forever(|| Self::new(unused))?;
                slot.ticks.header.set_timer(slot.fire_target());
                slot
            }
        };
        let _pinned = Pinned::<Plat>::of_scheduler();
        slot.setting.lock().bubble = BubbleRef::current();
        slot.runs_function.store(false, Ordering::Relaxed);
        Ok(slot)
    }

    fn fire_target(&'static self) -> &'static FireTarget<Plat> {
        self.target.call_once(|| FireTarget(self))
    }

    /// Puts a slot on the free list. The slot is disarmed and has no waiters. Callable on any thread.
    pub(super) fn give_back(&'static self, _pinned: &Pinned<Plat>) {
        self.unused.lock().push_front(self);
    }

    /// Sets a disarmed slot to start `prepared`, the G of a function, at `when`. With [`Instant::NEVER`] the slot stays
    /// disarmed.
    pub(super) fn start_at(
        &'static self,
        here: &CurrentProcessor<Plat>,
        setting: &mut Setting<Plat>,
        when: Instant,
        prepared: &'static Goroutine<Plat>,
    ) {
        self.runs_function.store(true, Ordering::Relaxed);
        setting.prepared = Some(prepared);
        setting.number += 1;
        setting.when = when;
        if when != Instant::NEVER {
            self.arm(&here.pinned, setting);
        }
    }

    /// Arms a timer that is set and not armed. The caller has a P.
    fn arm(&'static self, pinned: &Pinned<Plat>, setting: &mut Setting<Plat>) {
        setting.number += 1;
        setting.is_armed = true;
        let action = Action::Fire(self.fire_target(), setting.number);
        arm_in(pinned, setting.bubble.get(), setting.when, &self.timer, action);
    }

    /// Called for a timer that is not armed. If the timer is set and a G waits for it, arms the timer. If it is set and
    /// no G waits, makes it dormant. If it is not set, the timer is off afterwards.
    fn arm_if_awaited(&'static self, pinned: &Pinned<Plat>, ticks: &Held<'_, Plat>, setting: &mut Setting<Plat>) {
        let (is_set, is_awaited) = (setting.when != Instant::NEVER, self.has_receivers());
        if is_set && is_awaited {
            self.arm(pinned, setting);
        }
        ticks.set_dormant(is_set && !is_awaited);
    }

    /// Whether a G waits for a tick.
    fn has_receivers(&self) -> bool {
        !self.ticks.header.queue(Side::Receive).is_empty()
    }

    /// Disarms the slot; a firing under way has no effect.
    pub(super) fn disarm(&'static self, pinned: &Pinned<Plat>, setting: &mut Setting<Plat>) {
        setting.number += 1;
        // A timer that is not among the timers of a P any more may be about to fire. Such a firing has no effect,
        // because the generation has changed. Go: `isSending`.
        if mem::take(&mut setting.is_armed) {
            self.timer.cancel(pinned);
        }
    }

    /// Sets the timer to `when` and to every `period` after that; a `period` of zero means only once. With
    /// [`Instant::NEVER`] the timer is off afterwards. Returns whether it was set before and its tick had not been
    /// received.
    ///
    /// # Panics
    ///
    /// The caller is not on an M with a P. In this case nothing has changed.
    #[track_caller]
    pub(crate) fn set(&'static self, when: Instant, period: Duration) -> bool {
        let here = CurrentProcessor::<Plat>::new();
        let ticks = self.ticks.header.lock(&here.pinned);
        let mut setting = self.setting.lock();
        self.disarm(&here.pinned, &mut setting);
        let was_set = mem::replace(&mut setting.when, when) != Instant::NEVER;
        setting.period = period;
        // The timers of a bubble fire only when all Gs of the bubble wait. So a timer that is due at once fires here.
        let now = setting.bubble.get().map(|_| setting.bubble.now());
        let waiting = now.and_then(|now| self.send_tick(&ticks, &mut setting, now));
        self.arm_if_awaited(&here.pinned, &ticks, &mut setting);
        drop(setting);
        unlock_and_ready(&here.pinned, ticks, waiting);
        was_set
    }

    /// Turns the timer off, and drops a tick that has not been received. Returns whether there was or would have been a
    /// tick. Callable on any thread.
    pub(crate) fn stop(&'static self) -> bool {
        let pinned = Pinned::<Plat>::of_scheduler();
        let ticks = self.ticks.header.lock(&pinned);
        let mut setting = self.setting.lock();
        self.disarm(&pinned, &mut setting);
        ticks.set_dormant(false);
        mem::replace(&mut setting.when, Instant::NEVER) != Instant::NEVER
    }

    /// If the timer is due at `now` and a G waits for it, sends the tick to this G and returns the G, which the caller
    /// must ready.
    fn send_tick(
        &self,
        ticks: &Held<'_, Plat>,
        setting: &mut Setting<Plat>,
        now: Instant,
    ) -> Option<&'static Goroutine<Plat>> {
        let waiting = if setting.is_due(now) { self.ticks.send_to_receiver(ticks, now)? } else { return None };
        setting.advance(now);
        Some(waiting)
    }

    /// The channel of the timer's ticks.
    #[cfg(gmp_loom)]
    pub(crate) fn channel(&'static self) -> &'static Channel<Instant, Plat> {
        &self.ticks
    }

    /// Takes the tick if there is one. Does not arm the timer.
    #[track_caller]
    pub(crate) fn try_take(&'static self) -> Option<Instant> {
        self.ticks();
        let pinned = Pinned::<Plat>::of_scheduler();
        let ticks = self.ticks.header.lock(&pinned);
        let mut setting = self.setting.lock();
        let (when, now) = (setting.when, setting.bubble.now());
        // If Gs wait for the tick, it belongs to one of them.
        if !setting.is_due(now) || self.has_receivers() {
            return None;
        }
        self.disarm(&pinned, &mut setting);
        setting.advance(now);
        self.arm_if_awaited(&pinned, &ticks, &mut setting);
        Some(when)
    }

    /// Returns the bubble in which the timer was made. Panics if the calling G is outside of that bubble.
    #[track_caller]
    pub(super) fn check_bubble(&self, what: &str) -> BubbleRef<Plat> {
        let bubble = {
            let _pinned = Pinned::<Plat>::of_scheduler();
            self.setting.lock().bubble
        };
        assert!(!bubble.is_foreign(), "{what} from outside bubble");
        bubble
    }

    /// Returns the channel of the timer's ticks. Called directly before a receive, because on some platforms a due
    /// timer must be fired first.
    #[track_caller]
    pub(crate) fn ticks(&'static self) -> &'static Channel<Instant, Plat> {
        let bubble = self.check_bubble("receive on synctest channel");
        if !Plat::TIMER_INTERRUPTS && !bubble.is_some() && self.timer.is_armed() {
            self.fire_if_due();
        }
        &self.ticks
    }

    /// Fires an armed timer that is due. Without timer interrupts, a due timer is fired only when an M picks a G. But
    /// the caller may poll in a loop, so that no G is picked. Go: `maybeRunChan`.
    fn fire_if_due(&'static self) {
        let pinned = Pinned::<Plat>::of_scheduler();
        let ticks = self.ticks.header.lock(&pinned);
        let mut setting = self.setting.lock();
        // If the timer must be armed again, because several Gs wait for it, the caller needs a P.
        let is_possible = has_processor(&pinned) || !self.has_receivers();
        let now = Plat::now();
        if is_possible && setting.is_due(now) && self.timer.cancel(&pinned) {
            let waiting = self.fire_locked(&pinned, &ticks, &mut setting, now);
            drop(setting);
            unlock_and_ready(&pinned, ticks, waiting);
        }
    }

    /// Fires a timer that is no longer among the timers of a P. Returns the G that waits for the tick, if any, which
    /// the caller must ready.
    fn fire_locked(
        &'static self,
        pinned: &Pinned<Plat>,
        ticks: &Held<'_, Plat>,
        setting: &mut Setting<Plat>,
        now: Instant,
    ) -> Option<&'static Goroutine<Plat>> {
        setting.is_armed = false;
        let waiting = self.send_tick(ticks, setting, now);
        self.arm_if_awaited(pinned, ticks, setting);
        waiting
    }
}

/// Whether the caller is on an M with a P.
fn has_processor<Plat: Platform>(pinned: &Pinned<Plat>) -> bool {
    pinned.try_machine().and_then(Machine::processor).is_some()
}

impl<Plat: Platform> Fire<Plat> for TimerSlot<Plat> {
    fn fire(&'static self, pinned: &Pinned<Plat>, number: u64, now: Instant) -> Option<&'static Goroutine<Plat>> {
        let ticks = self.ticks.header.lock(pinned);
        let mut setting = self.setting.lock();
        if setting.number != number {
            return None;
        }
        if let Some(goroutine) = setting.prepared.take() {
            setting.is_armed = false;
            let bubble = setting.bubble.get();
            drop((setting, ticks));
            return start_prepared(pinned, goroutine, bubble);
        }
        let waiting = self.fire_locked(pinned, &ticks, &mut setting, now);
        drop((setting, ticks));
        waiting.and_then(|goroutine| make_runnable(pinned, goroutine))
    }

    fn is_awaited(&self) -> bool {
        self.runs_function.load(Ordering::Relaxed) || self.has_receivers()
    }

    fn is_in_bubble(&self) -> bool {
        self.setting.lock().bubble.is_some()
    }

    fn settle(&'static self) {
        let pinned = Pinned::<Plat>::of_scheduler();
        // The caller holds the channel's lock, and will release it.
        let ticks = ManuallyDrop::new(self.ticks.header.assume_locked());
        let mut setting = self.setting.lock();
        let (when, now) = (setting.when, setting.bubble.now());
        if setting.is_due(now) {
            setting.advance(now);
            self.ticks.fill(&ticks, when);
            ticks.set_dormant(setting.when != Instant::NEVER);
        } else if has_processor(&pinned) {
            self.arm(&pinned, &mut setting);
            ticks.set_dormant(false);
        }
    }
}

impl<Plat: Platform> Linked for TimerSlot<Plat> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<Plat: Platform> fmt::Debug for TimerSlot<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerSlot").field("timer", &self.timer).finish_non_exhaustive()
    }
}
