//! Points in time, timers, tickers, delayed functions. Go: `time`.
//!
//! Time is the platform's monotonic clock, in nanoseconds, without rounding. Each P has its own timers. While an M
//! holds the P, this M fires them, unless an M that finds nothing else to do fires them first. If the platform has
//! timer interrupts, an interrupt makes the M check for due timers while a G runs. Otherwise the M fires due timers
//! when it picks a G. (`entities::timers` says who makes sure that the timers of the other Ps fire in time.)
//!
//! A G waits for a timer directly. (In Go, it receives from the timer's channel.) A timer can be a case of a
//! [select](mod@crate::select). A timer holds at most one tick that has not been received. [`Timer::stop`] and
//! [`Timer::reset`] drop this tick, so they leave no stale tick behind (as in Go since 1.23). Waiting borrows the
//! timer, so no G can wait for a timer that has been dropped.
//!
//! A timer or ticker joins the timers of a P only when a G receives from it. Until then it costs nothing: whether it has a
//! tick is computed from the clock when it is read. If no G waits for it, it does not keep the scheduler from finding a
//! [deadlock](crate#features).
//!
//! A timer, ticker or delayed function that was made in a [bubble](crate#features) uses the bubble's clock and belongs
//! to the Gs of the bubble. A G outside of the bubble panics if it stops, sets or waits for such a timer. A timer,
//! ticker or delayed function that was made outside of all bubbles uses the platform's clock, even if a G of a bubble
//! sets it.
//!
//! ```
//! use core::time::Duration;
//! use gmp_sched::native::{self, Context, Receiver, Ticker, Timer, after, channel};
//! use gmp_sched::select;
//!
//! const MINUTE: Duration = Duration::from_secs(60);
//!
//! unsafe { native::enter() }.run(2, || {
//!     let (work, mut queue) = channel::<u32>(0);
//!     let (context, _cancel) = Context::background().with_timeout(MINUTE);
//!     let (beat, idle) = (Ticker::new(Duration::from_millis(2)), Timer::new(MINUTE));
//!     native::go(move || work.send(1).unwrap()).detach();
//!     let mut beats = 0;
//!     while beats < 3 {
//!         select! {
//!             recv(queue) -> work => match work {
//!                 Ok(_) => drop(idle.reset(MINUTE)),
//!                 Err(_) => queue = Receiver::never(),
//!             },
//!             recv(beat) => beats += 1,
//!             recv(idle) => unreachable!("no work for a minute"),
//!             recv(after(MINUTE)) => unreachable!("nothing at all for a minute"),
//!             recv(context.done()) => unreachable!("took longer than a minute"),
//!         }
//!     }
//! });
//! ```

mod after_func;
mod slot;
mod ticker;
mod timer;
mod waits;

pub(crate) use after_func::after_func_at;
pub use after_func::{AfterFunc, after_func, try_after_func};
pub(crate) use slot::TimerSlot;
pub use ticker::Ticker;
pub use timer::{Timer, after};

use core::time::Duration;

pub use crate::base::instant::Instant;
use crate::library::sleep;
use crate::platform::Platform;

/// What the panic message calls a stop of a timer of another bubble.
const STOP: &str = "stop of synctest timer";
/// What the panic message calls a reset of a timer of another bubble.
const RESET: &str = "reset of synctest timer";

/// The point in time `duration` after `now`, for a timer that is set. If it would be beyond the end of time, this is
/// the last instant, because a timer that is set to [`Instant::NEVER`] is not set at all.
fn instant_after(now: Instant, duration: Duration) -> Instant {
    (now + duration).min(Instant::LAST)
}

/// The current time of the platform's clock or, for a G in a bubble, of the [bubble's](crate#features) clock. Callable
/// from anywhere except interrupts, which use [`Platform::now`].
///
/// ```
/// use gmp_sched::native::{self, Native};
/// use gmp_sched::time;
///
/// unsafe { native::enter() }.run(1, || assert!(time::now::<Native>() <= native::now()));
/// ```
#[must_use]
#[inline]
pub fn now<Plat: Platform>() -> Instant {
    sleep::now::<Plat>()
}
