//! A [`WaitEnd`] may end a wait before the event for which the G waits has come.

use crate::base::instant::Instant;
use crate::engine::timers::arm;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::timers::Action;
use crate::platform::{Pinned, Platform};

/// A cause that may end a G's wait before the awaited event does: a deadline or a context.
pub(crate) trait WaitEnd<Plat: Platform>: Copy {
    /// Called on the far side of the switch by which `me` parks. From then on `self` may end the wait by claiming
    /// `generation` and readying `me`, possibly before this call returns.
    fn arm(self, pinned: &Pinned<Plat>, me: &'static Goroutine<Plat>, generation: WaitGeneration);

    /// Called by `me` when it runs again, to undo [`arm`](Self::arm). The call of `arm` may still be running on another
    /// M. In that case this call returns only when `arm` no longer uses `self`.
    fn disarm(self, me: &'static Goroutine<Plat>);
}

impl<Plat: Platform> WaitEnd<Plat> for Instant {
    fn arm(self, pinned: &Pinned<Plat>, me: &'static Goroutine<Plat>, generation: WaitGeneration) {
        if self != Self::NEVER {
            arm(pinned, me, self, &me.timer, Action::Wake(me, generation));
        }
    }

    fn disarm(self, me: &'static Goroutine<Plat>) {
        if self != Self::NEVER {
            me.timer.cancel(&Pinned::of_scheduler());
        }
    }
}
