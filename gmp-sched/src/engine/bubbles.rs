//! Counting the Gs of a bubble that wait, and readying the G that waits for the others; see [`crate::synctest`].

use crate::engine::park::ready_pinned;
use crate::entities::bubble::Bubble;
use crate::entities::goroutine::Goroutine;
use crate::platform::{Pinned, Platform};

impl<P: Platform> Bubble<P> {
    /// Removes a G that ends.
    #[cold]
    pub(crate) fn left(&self, pinned: &Pinned<P>, goroutine: &Goroutine<P>) {
        goroutine.set_bubble(None);
        let mut census = self.census.lock();
        census.alive -= 1;
        let woken = self.one_less_active(&mut census);
        drop(census);
        if let Some(goroutine) = woken {
            ready_pinned(pinned, goroutine);
        }
    }

    /// Counts a G as waiting durably; it may have been woken in the meantime.
    pub(crate) fn blocked(&self, pinned: &Pinned<P>) {
        let woken = self.one_less_active(&mut self.census.lock());
        if let Some(goroutine) = woken {
            ready_pinned(pinned, goroutine);
        }
    }
}
