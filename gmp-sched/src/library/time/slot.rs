//! The reusable part of a program's timer. A slot is never freed, so that a firing under way can still access it.
//!
//! A timer fires in three steps. First the timer is removed from its P's timers under their lock. Then, under the
//! slot's lock, the generation for which the timer was armed is compared with that of the slot; if they are equal, a
//! tick is sent, or the G that is to run the function is taken from the slot. Then, without a lock, the G that waited
//! for the tick is readied, or the G of the function is started. Stopping or setting the timer increments the
//! generation under the slot's lock, so a firing of an earlier setting has no effect, however late it comes.
//!
//! As in Go, ticks are sent to a channel with capacity 1. Here the channel is a part of the slot, and receiving from it
//! borrows the timer. So a select receives from timers as from any channel, no G receives from a timer that has been
//! dropped, and the channel is reused with the slot.

use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::time::Duration;

use spin::Once;

use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::base::list::{Linked, List};
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::engine::arm_timers::arm_in;
use crate::engine::current::CurrentProcessor;
use crate::engine::park::make_runnable;
use crate::entities::bubble::BubbleRef;
use crate::entities::goroutine::Goroutine;
use crate::entities::timers::{self, Action, Fire, FireTarget};
use crate::library::chan::Channel;
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
    /// A reference to this slot, to be stored among the timers of a P. Made when the slot is armed for the first time.
    target: Once<FireTarget<Plat>>,
    pub(super) setting: Lock<Setting<Plat>, Plat>,
    /// When the timer fires, the current time is sent to this channel. The channel's lock may be taken under the lock
    /// of `setting`.
    ticks: Channel<Instant, Plat>,
}

/// What a timer is set to do, guarded by its slot's lock. The lock of a P's timers may be taken under the slot's lock.
pub(super) struct Setting<Plat: Platform> {
    /// The generation. Arming and disarming increment it. Go: `timer.seq`.
    pub(super) number: u64,
    /// Whether the timer is armed or about to fire.
    is_set: bool,
    /// Whether the timer fires periodically.
    repeats: bool,
    /// The bubble in which the timer was made. The timer uses the clock of this bubble. (The channel records only
    /// whether there is a bubble, not which one.)
    pub(super) bubble: BubbleRef<Plat>,
    /// The time of the last firing since the timer was armed; 0 if it has not fired since.
    fired: Instant,
    /// The G to start, if the timer runs a function.
    pub(super) prepared: Option<&'static Goroutine<Plat>>,
}

impl<Plat: Platform> TimerSlot<Plat> {
    fn new(unused: &'static Unused<Plat>) -> Result<Self, OutOfResources> {
        let setting = Setting {
            number: 0,
            is_set: false,
            repeats: false,
            bubble: BubbleRef::none(),
            fired: Instant::from_nanos(0),
            prepared: None,
        };
        Ok(Self {
            timer: timers::Timer::new(),
            unused,
            link: AtomicRef::none(),
            target: Once::new(),
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
        let CurrentProcessor { pinned: _pinned, machine, .. } = CurrentProcessor::<Plat>::new();
        let unused = machine.scheduler().timer_slots.get_or_make(|| Unused::new(List::new()))?;
        let first = unused.lock().pop_front();
        let slot = match first {
            Some(slot) => slot,
            None => {
                let mut storage = Vec::new();
                storage.try_reserve_exact(1).map_err(|_| OutOfResources)?;
                storage.push(Self::new(unused)?);
                &storage.leak()[0]
            }
        };
        let bubble = BubbleRef::current();
        slot.setting.lock().bubble = bubble;
        slot.ticks.header.set_in_bubble(bubble.is_some());
        Ok(slot)
    }

    fn fire_target(&'static self) -> &'static FireTarget<Plat> {
        self.target.call_once(|| FireTarget(self))
    }

    /// Puts a slot on the free list. The slot is disarmed and has no waiters. Callable on any thread.
    pub(super) fn give_back(&'static self, _pinned: &Pinned<Plat>) {
        self.unused.lock().push_front(self);
    }

    /// Arms a disarmed slot to fire at `when`. If `period` is not zero, the slot fires again after every `period`. With
    /// [`Instant::NEVER`] the slot stays disarmed.
    pub(super) fn arm(
        &'static self,
        here: &CurrentProcessor<Plat>,
        setting: &mut Setting<Plat>,
        when: Instant,
        period: Duration,
    ) {
        setting.number += 1;
        self.timer.set_period(period);
        setting.is_set = when != Instant::NEVER;
        setting.fired = Instant::from_nanos(0);
        setting.repeats = !period.is_zero();
        if setting.is_set {
            arm_in(
                &here.pinned,
                setting.bubble.get(),
                when,
                &self.timer,
                Action::Fire(self.fire_target(), setting.number),
            );
        }
    }

    /// Disarms the slot. Cancels a future firing, and drops a tick that has not been received. Returns whether it
    /// cancelled a firing or dropped a tick.
    pub(super) fn disarm(&'static self, pinned: &Pinned<Plat>, setting: &mut Setting<Plat>) -> bool {
        setting.number += 1;
        // A timer that is not armed any more may be about to fire. Such a firing has no effect, because the generation
        // has changed. Go: `isSending`.
        self.timer.cancel(pinned);
        let was_set = mem::take(&mut setting.is_set);
        self.ticks.try_recv().is_ok() || was_set
    }

    /// Disarms the slot and arms it again. Returns what [`disarm`](Self::disarm) returns.
    ///
    /// # Panics
    ///
    /// The caller is not on an M with a P. In this case nothing has changed.
    #[track_caller]
    pub(crate) fn set(&'static self, when: Instant, period: Duration) -> bool {
        let here = CurrentProcessor::<Plat>::new();
        let mut setting = self.setting.lock();
        let was_set = self.disarm(&here.pinned, &mut setting);
        self.arm(&here, &mut setting, when, period);
        was_set
    }

    /// Takes the lock and disarms the slot, as [`disarm`](Self::disarm) does. Callable on any thread.
    pub(crate) fn stop(&'static self) -> bool {
        let pinned = Pinned::<Plat>::of_scheduler();
        self.disarm(&pinned, &mut self.setting.lock())
    }

    /// Queues `waiter`, which has a value slot, as a receiver of the timer's ticks.
    #[cfg(gmp_loom)]
    pub(crate) fn queue(&'static self, waiter: &'static crate::entities::waiter::Waiter<Plat>) {
        let pinned = Pinned::<Plat>::of_scheduler();
        let _held = self.ticks.header.lock(&pinned);
        self.ticks.header.queue(crate::library::chan::Side::Receive).push_back(waiter);
    }

    /// Takes the tick that has not been received yet; `None` if there is none.
    #[track_caller]
    pub(crate) fn try_take(&'static self) -> Option<Instant> {
        self.ticks().try_recv().ok()
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
        if !Plat::TIMER_INTERRUPTS && !bubble.is_some() {
            // Without timer interrupts, a due timer is fired only when an M picks a G. But the caller may poll in a
            // loop, so that no G is picked. So this call fires the timer if it is due. Go: `maybeRunChan`.
            self.timer.run_if_due(&Pinned::of_scheduler());
        }
        &self.ticks
    }
}

impl<Plat: Platform> Fire<Plat> for TimerSlot<Plat> {
    fn fire(&'static self, pinned: &Pinned<Plat>, number: u64, now: Instant) -> Option<&'static Goroutine<Plat>> {
        let mut setting = self.setting.lock();
        // The next firing of a periodic timer may have overtaken this firing on another M. In that case this firing
        // sends no tick, because the times of the ticks must not go backwards.
        if setting.number != number || now < setting.fired {
            return None;
        }
        setting.fired = now;
        setting.is_set = setting.repeats;
        if let Some(goroutine) = setting.prepared.take() {
            let bubble = setting.bubble.get();
            drop(setting);
            return start_prepared(pinned, goroutine, bubble);
        }
        // The channel holds one tick; later ticks are dropped.
        let waiting = self.ticks.send_or_drop(pinned, now);
        drop(setting);
        waiting.and_then(|goroutine| make_runnable(pinned, goroutine))
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
