//! Deadlock detection: no G runs, and none ever will. [`Platform::fatal`] reports it. Go: `checkdead`.

use crate::base::atomic::Ordering;
use crate::base::id::GoroutineId;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::entities::status::Status;
use crate::platform::Platform;

impl<Plat: Platform> Scheduler<Plat> {
    /// Ends the program if this scheduler is [dead](Self::is_dead) and no other scheduler can wake one of its Gs.
    /// Called by an M that has found no work, and is on the idle list or waits for its locked G.
    #[doc(alias = "checkdead")]
    pub(crate) fn check_dead(&'static self) {
        let found = self.is_dead(&self.shared.lock());
        if let Some(message) = found
            && Plat::is_left_alone(self)
        {
            Plat::fatal(self, format_args!("{message}"));
        }
    }

    /// Returns the message to report if this scheduler is dead: every M is idle or waits for its locked G (so none is in
    /// a system call), no armed timer would make a G runnable, no G waits for a device, no work is visible, and the
    /// scheduler is not shut down. Besides, a G waits, or the main G has called `goexit`. On a platform with threads
    /// that are not Ms, the scheduler is not dead while a G waits for a future, because such a thread may ready that G.
    ///
    /// The last M to check sees the state that the other Ms have left, because each M publishes its state before it
    /// puts itself on the idle list, or in the same critical section.
    pub(crate) fn is_dead(&'static self, shared: &Shared<Plat>) -> Option<&'static str> {
        if shared.idle_machines.len() + shared.idle_locked as usize != shared.machines as usize {
            return None;
        }
        if self.signals.waiting.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let is_timer_awaited = self.processors().iter().any(|processor| processor.timers.is_any_awaited());
        if is_timer_awaited || self.is_work_visible() || self.is_shut_down() {
            return None;
        }
        let waits = |goroutine: &&Goroutine<Plat>| {
            goroutine.status() == Status::Waiting && goroutine.id() != GoroutineId::BACKGROUND
        };
        let mut waiting = self.goroutines().filter(waits).peekable();
        let someone_waits = waiting.peek().is_some();
        if Plat::HAS_OTHER_THREADS && waiting.any(|goroutine| goroutine.wait_reason() == WaitReason::Future) {
            return None;
        }
        if someone_waits {
            return Some("all goroutines are asleep - deadlock!");
        }
        self.main_exited.load(Ordering::Relaxed).then_some("no goroutines (main called runtime.Goexit) - deadlock!")
    }
}
