//! The g0 loop of an M. [`pick`](crate::engine::pick) chooses the Gs that it runs.

use crate::engine::hooks;
use crate::engine::pick::find_runnable;
use crate::engine::switch::execute;
use crate::entities::machine::NewMachine;
use crate::platform::{Pinned, Platform};

impl<Plat: Platform> NewMachine<Plat> {
    /// The main loop of an M, on the stack of the M's own thread: finds a G and switches to the G, again and again. The
    /// G may leave by a switch to another G, and so on. The switch from g0 returns when one of these Gs leaves for g0.
    /// Go: `mstart`, `schedule`.
    ///
    /// Called by the thread that [`Platform::start_thread`] made, pinned once.
    #[doc(alias = "schedule")]
    pub fn run(self) -> ! {
        let machine = self.machine();
        let mut pinned = Pinned::assume();
        loop {
            let next = hooks::wait_for_locked(&pinned, machine).unwrap_or_else(|| find_runnable(&pinned, machine));
            pinned = execute(pinned, next);
        }
    }
}
