//! The state of the background G, which gives cached memory back: see `refinements::background`.

use crate::base::atomic::{AtomicBool, AtomicU64};
use crate::base::instant::Instant;
use crate::base::reference::AtomicRef;
use crate::entities::goroutine::Goroutine;
use crate::platform::Platform;

/// The background G of a scheduler, and when it is to run.
#[derive(Debug)]
pub(crate) struct Background<Plat: Platform> {
    /// The G. `None` before the scheduler has started, and on a platform without a
    /// [scavenger](Platform::scavenger).
    pub(crate) goroutine: AtomicRef<Goroutine<Plat>>,
    /// When the G is to run, in nanoseconds. [`Instant::NEVER`] if there is nothing to give back.
    pub(crate) due: AtomicU64,
    /// Whether the G has left its stack, and no M has taken it since. The M that clears this flag runs the G.
    pub(crate) is_parked: AtomicBool,
}

impl<Plat: Platform> Background<Plat> {
    pub(crate) fn new() -> Self {
        Self {
            goroutine: AtomicRef::none(),
            due: AtomicU64::new(Instant::NEVER.as_nanos()),
            is_parked: AtomicBool::new(false),
        }
    }
}
