//! Points in time, timers, tickers, functions that run later. Go: `time`.
//!
//! All time is the platform's clock, which never goes back, in nanoseconds; nothing is rounded. What is due is done by
//! whoever looks after the P's timers (see `timers`): by interrupt where the platform has one.
//!
//! Timers do not send to a channel, as Go's do: they are waited for themselves, and hold the one tick that nobody has
//! taken yet. So [`Timer::stop`] and [`Timer::reset`] leave no stale tick behind (as Go's since 1.23).

mod after_func;
mod instant;
mod slot;
mod ticker;
mod timer;

pub(crate) use after_func::after_func_at;
pub use after_func::{AfterFunc, after_func};
pub use instant::Instant;
pub(crate) use slot::{TimerSlot, fire};
pub use ticker::Ticker;
pub use timer::Timer;

use crate::goroutine::Goroutine;
use crate::machine::Machine;
use crate::platform::{Pinned, Platform};

/// What time it is: on the platform's clock or, for a G in a bubble, on [that one's](crate::synctest). Callable from anywhere
/// but interrupts, which ask the platform.
#[must_use]
#[inline]
pub fn now<P: Platform>() -> Instant {
    let pinned = Pinned::<P>::new();
    match pinned.try_machine().and_then(Machine::current_goroutine).and_then(Goroutine::bubble) {
        Some(bubble) => bubble.now(),
        None => P::now(),
    }
}
