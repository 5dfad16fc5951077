//! How Ms take device signals from the *raised list*: the signals that interrupt handlers have raised and for which a G
//! waits. An M polls this list at each pick on g0, and when a G gives way; the Gs go to the urgent queue of its P (see
//! `urgent`). (Go calls `netpoll` later in a pick, after it has found the local and the global queue empty.)
//!
//! # No raise is lost
//!
//! If `raise` finds an idle P, it unparks the *poller*, which is the M that went idle last. The poller takes a P and
//! runs the G. It does not spin, so it wakes no further M. If it finds no P to take, it preempts an M. If it is
//! assigned a P for other work, it polls first. If it ends, it makes another M poll. In the last two cases it has left
//! the idle list, so that another M is the poller. If there is no idle P, or no idle M to rely on, `raise` preempts an
//! M that runs a G. [`idle`](crate::engine::idle) explains why one of the two sides always notices ("Store, fence,
//! load").

use core::ptr;

use crate::base::atomic::{Ordering, fence};
use crate::base::points::Site;
use crate::engine::ready::ready_pinned;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

impl<Plat: Platform> Scheduler<Plat> {
    /// Calls `ready` for each G whose signal was raised, in the order of the raises. `ready` must ready the G. Go:
    /// `netpoll(0)`.
    #[doc(alias = "netpoll")]
    #[inline(always)]
    pub(crate) fn poll_each(&'static self, pinned: &Pinned<Plat>, ready: impl FnMut(&'static Goroutine<Plat>)) {
        if !self.signals.is_ready() {
            return;
        }
        self.take_raised(pinned.machine().processor(), ready);
    }

    /// Like [`poll_each`](Self::poll_each), but readies the Gs itself. For a caller that is not an M of this scheduler
    /// with a P: sysmon, or an M of another scheduler. Each G goes to the global queue of its scheduler.
    pub(crate) fn poll_from_outside(&'static self, pinned: &Pinned<Plat>) {
        self.take_raised(None, |goroutine| ready_pinned(pinned, goroutine));
    }

    /// Makes an M check the raised list soon: wakes an idle M if a P is idle, and otherwise preempts a G. Callable from
    /// interrupts. Go: `netpollBreak`.
    #[doc(alias = "netpollBreak")]
    pub(crate) fn wake_poller(&'static self) {
        if Plat::polls_later(self) {
            return;
        }
        // ANCHOR: wake_poller
        // Ordering: partners: the fences in `Machine::go_idle` and `Machine::end_poll_duty`.
        fence(Ordering::SeqCst);
        Plat::point(Site::DeviceSignal);
        if self.idle_processors.load(Ordering::Relaxed) != 0
            && let Some(machine) = self.poller.load(Ordering::Acquire)
        {
            Plat::unpark_thread(machine);
        } else {
            self.preempt_to_poll();
        }
        // ANCHOR_END: wake_poller
    }

    /// Preempts an M that holds a P, so that the preempted M polls the signals. Prefers the M on this CPU, which may be
    /// an M of another scheduler. Called when every P is held or about to be held. Callable from interrupts.
    pub(crate) fn preempt_to_poll(&'static self) {
        let holds = |machine: &&'static Machine<Plat>| machine.processor().is_some();
        let here = Plat::current_machine().filter(|machine| ptr::eq(machine.scheduler(), self));
        if let Some(machine) = here.filter(holds).or_else(|| self.machines().find(holds)) {
            Plat::request_preemption(machine);
        }
    }
}
