//! What a timer is set to do.

use core::time::Duration;

use crate::base::instant::Instant;
use crate::entities::bubble::BubbleRef;
use crate::entities::goroutine::Goroutine;
use crate::platform::Platform;

/// What a timer is set to do, guarded by its slot's lock. The lock of a P's timers may be taken under the slot's lock.
pub(in super::super) struct Setting<Plat: Platform> {
    /// The generation. Arming and disarming increment it. Go: `timer.seq`.
    pub(in super::super) number: u64,
    /// The time of the first tick that has not been received; [`Instant::NEVER`] if there will be no tick.
    pub(super) when: Instant,
    /// The time between ticks; zero if there is only one.
    pub(super) period: Duration,
    /// Whether the timer is among the timers of a P or of a bubble, or is about to fire.
    pub(super) is_armed: bool,
    /// The bubble in which the timer was made. The timer uses the clock of this bubble.
    pub(in super::super) bubble: BubbleRef<Plat>,
    /// The G to start, if the timer runs a function.
    pub(in super::super) prepared: Option<&'static Goroutine<Plat>>,
}

impl<Plat: Platform> Setting<Plat> {
    /// Whether there is a tick at the time `now`, which is not [`Instant::NEVER`].
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.when <= now
    }

    /// Ends the tick that is due at `now`. The next tick, if there is one, comes a multiple of the period later, and
    /// after `now`. The ticks between them are missed. There are no ticks after the end of time.
    pub(super) fn advance(&mut self, now: Instant) {
        let period = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        let when = self.when.as_nanos();
        let missed = now.as_nanos().saturating_sub(when).checked_div(period);
        let step = missed.and_then(|missed| period.checked_mul(missed + 1));
        let next = step.and_then(|step| when.checked_add(step)).map_or(Instant::NEVER, Instant::from_nanos);
        self.when = next;
    }
}
