//! Points in time, timers, tickers, functions that run later. Go: `time`.
//!
//! All time is the platform's clock, which never goes back, in nanoseconds; nothing is rounded. What is due is done by
//! whoever looks after the P's timers (see `timers`): by interrupt where the platform has one.
//!
//! Timers are waited for themselves, not a channel of theirs as in Go, and are cases of a [select](mod@crate::library::select): they
//! hold the one tick that nobody has taken yet. So [`Timer::stop`] and [`Timer::reset`] leave no stale tick behind (as
//! Go's since 1.23), and nobody waits for a timer that is gone.
//!
//! What is made in a [bubble](crate::synctest) goes by that one's clock and is for its Gs alone: who stops it, sets it or waits
//! for it from outside panics. What was made outside goes by the platform's clock, also where a G of a bubble sets it.
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
mod instant;
mod slot;
mod ticker;
mod timer;
mod waits;

pub(crate) use after_func::after_func_at;
pub use after_func::{AfterFunc, after_func};
pub use instant::Instant;
pub(crate) use slot::{TimerSlot, fire};
pub use ticker::Ticker;
pub use timer::{Timer, after};

use crate::platform::Platform;
use crate::synctest::Home;

/// What is said to have been done from outside of a bubble.
const STOP: &str = "stop of synctest timer";
/// See [`STOP`].
const RESET: &str = "reset of synctest timer";

/// What time it is: on the platform's clock or, for a G in a bubble, on [that one's](crate::synctest). Callable from anywhere
/// but interrupts, which ask the platform.
///
/// ```
/// use gmp_sched::native::{self, Native};
/// use gmp_sched::time;
///
/// unsafe { native::enter() }.run(1, || assert!(time::now::<Native>() <= native::now()));
/// ```
#[must_use]
#[inline]
pub fn now<P: Platform>() -> Instant {
    Home::<P>::here().now()
}
