//! Arming timers, and firing due ones. The data is in `entities::timers`; [`urgent`](crate::engine::urgent) says when a P
//! fires them, and [`timekeeper`](crate::engine::timekeeper) who wakes for those of idle Ps.

use crate::base::instant::Instant;
use crate::engine::hooks::Window;
use crate::engine::ready::make_runnable;
use crate::entities::bubble::BubblePointer;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::timers::{Action, Timer};
use crate::entities::window::At;
use crate::platform::{Pinned, Platform};

impl<Plat: Platform> Action<Plat> {
    /// Runs the action. `now` is the current time. If the action makes a G runnable that this M may run, returns that
    /// G, which the caller must run or enqueue.
    #[inline(always)]
    pub(crate) fn run(self, pinned: &Pinned<Plat>, now: Instant) -> Option<&'static Goroutine<Plat>> {
        match self {
            Self::Wake(goroutine, generation) => {
                let won = goroutine.claim(generation);
                won.then(|| make_runnable(pinned, goroutine)).flatten()
            }
            Self::Fire(target, setting) => target.0.fire(pinned, setting, now),
        }
    }
}

/// Fires due timers of the P `of` until one of them makes a G runnable that this M may run. Returns that G, which the
/// caller must run or enqueue, or `None` if there is no such G. `of` need not be the current P. Go: `timers.check`.
#[inline(always)]
pub(crate) fn take_due<Plat: Platform>(
    pinned: &Pinned<Plat>,
    of: &'static Processor<Plat>,
    now: Instant,
) -> Option<&'static Goroutine<Plat>> {
    let here = pinned.machine().processor();
    while let Some(action) = of.pop_due_timer(here, now) {
        let window = Window::<Plat>::open(At::DueTimer);
        let readied = action.run(pinned, now);
        window.close();
        if readied.is_some() {
            return readied;
        }
    }
    None
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Whether any P has a timer that is due.
    pub(crate) fn is_timer_due(&'static self) -> bool {
        let earliest = self.processors().iter().map(|processor| processor.timers.earliest()).min();
        earliest.is_some_and(|earliest| earliest != Instant::NEVER && earliest <= Plat::now())
    }
}

/// Sets `timer` to run `action` at `when`. If `goroutine` is in a bubble, the timer is set in that bubble, otherwise on
/// the current P. No other code may arm `timer` at the same time.
#[inline]
pub(crate) fn arm<Plat: Platform>(
    pinned: &Pinned<Plat>,
    goroutine: &Goroutine<Plat>,
    when: Instant,
    timer: &'static Timer<Plat>,
    action: Action<Plat>,
) {
    arm_in(pinned, goroutine.bubble(), when, timer, action);
}

/// Like [`arm`], but sets the timer in `bubble`, or on the current P if `bubble` is `None`.
#[inline]
pub(crate) fn arm_in<Plat: Platform>(
    pinned: &Pinned<Plat>,
    bubble: Option<BubblePointer<Plat>>,
    when: Instant,
    timer: &'static Timer<Plat>,
    action: Action<Plat>,
) {
    // An earliest time of `NEVER` means that no timer is set.
    let when = when.min(Instant::LAST);
    if let Some(bubble) = bubble {
        bubble.timers().insert(when, timer, action);
        return;
    }
    let processor = pinned.processor();
    if !processor.timers.insert(when, timer, action) {
        return;
    }
    let machine = pinned.machine();
    if !Plat::TIMER_INTERRUPTS {
        machine.scheduler().wake_timekeeper(when);
        // On g0, `execute` does the rest, if the P does not become idle.
        if machine.current_goroutine().is_none() {
            return;
        }
    }
    processor.check_at(pinned, when);
}
