//! How Ms take device signals from the *raised list*. This list contains the signals that interrupt handlers have
//! raised and for which a G waits. This file determines which M takes the signals from the list, and makes an M do so
//! soon after a raise.
//!
//! An M polls the list at each pick on g0, and when a G gives way. The Gs that wait for these signals go to the urgent
//! queue of the M's P (see `urgent`). Go calls `netpoll` later in a pick, after it has found the local and the global queue empty.
//!
//! # No raise is lost
//!
//! `raise` publishes the signal, then executes a fence, then checks for an idle P. An M that goes idle releases its P,
//! then executes a fence, then checks the raised list. So at least one of the two sees what the other has published.
//!
//! If `raise` finds an idle P, it relies on an idle M. If the M that parked last on the interrupted CPU is still idle,
//! `raise` relies on this M ([`Platform::parked_machine`]), because it can be woken without an interrupt of another
//! CPU. Otherwise `raise` relies on the timekeeper. `raise` unparks the M on which it relies. This M checks the raised
//! list, takes a P and runs the G. It does not spin, so it wakes no further M. One of three things may happen before
//! this M has taken a P:
//!
//! - Another M takes the last idle P. The unparked M then preempts an M that runs a G.
//! - The M leaves the idle list because it is assigned a P for other work. The M polls before it takes that work.
//! - The M leaves the idle list because its thread ends. If a signal is on the raised list, the M makes another M poll.
//!
//! In the last two cases the M is no longer the timekeeper, and clears its flag `will_poll`. It then executes a fence,
//! and then checks the raised list. `raise` relies on an M only if it has seen, after its own fence, that the M was the
//! timekeeper or had its flag set. So either the M sees the signal, or `raise` does not rely on the M.
//!
//! If `raise` finds no idle P, or no idle M on which it can rely, it preempts an M that runs a G, and that M then
//! checks the raised list.

use core::ptr;

use crate::base::atomic::{Ordering, fence};
use crate::base::points::Site;
use crate::engine::ready::ready_pinned;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

impl<Plat: Platform> Scheduler<Plat> {
    /// Readies the Gs whose signals were raised, for a caller that is a G or a waker. Returns whether there were any.
    /// These Gs go to `runnext`, as if the caller had readied them.
    pub(crate) fn poll(&'static self, pinned: &Pinned<Plat>) -> bool {
        let mut any = false;
        self.poll_each(pinned, |goroutine| {
            ready_pinned(pinned, goroutine);
            any = true;
        });
        any
    }

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

    /// Like [`poll`](Self::poll), for a caller that is not an M of this scheduler with a P: sysmon, or an M of another
    /// scheduler. Each G goes to the global queue of its scheduler.
    pub(crate) fn poll_from_outside(&'static self, pinned: &Pinned<Plat>) {
        self.take_raised(None, |goroutine| ready_pinned(pinned, goroutine));
    }

    /// Makes an M check the raised list soon: wakes an idle M if a P is idle, and otherwise preempts a G. Callable from
    /// interrupts. Go: `netpollBreak`.
    #[doc(alias = "netpollBreak")]
    pub(crate) fn wake_poller(&'static self) {
        // Ordering: see "No raise is lost" above. Partners: the fences in `Machine::go_idle` and
        // `Machine::take_poll_duty`.
        fence(Ordering::SeqCst);
        Plat::point(Site::DeviceSignal);
        if self.idle_processors.load(Ordering::Relaxed) != 0
            && let Some(machine) = self.find_poller()
        {
            Plat::unpark_thread(machine);
        } else {
            self.preempt_to_poll();
        }
    }

    /// Returns an idle M, or `None` if no M is idle. Prefers the M that parked last on this CPU, if it is still idle,
    /// because no other CPU has to be interrupted to wake that M. Otherwise returns the timekeeper, which is known
    /// without a search.
    fn find_poller(&'static self) -> Option<&'static Machine<Plat>> {
        let is_poller = |machine: &&'static Machine<Plat>| {
            machine.will_poll.load(Ordering::Relaxed) && ptr::eq(machine.scheduler(), self)
        };
        Plat::parked_machine().filter(is_poller).or_else(|| self.timekeeper.load(Ordering::Acquire))
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

impl<Plat: Platform> Machine<Plat> {
    /// Called by an M that has left the idle list, before it polls the signals. From now on no raise relies on this M.
    /// Returns whether a raise may have relied on it.
    #[inline(always)]
    pub(crate) fn take_poll_duty(&self) -> bool {
        if !self.will_poll.load(Ordering::Relaxed) {
            return false;
        }
        self.will_poll.store(false, Ordering::Relaxed);
        // Ordering: the partner of this fence is the fence in `wake_poller`. Either that function does not rely on this
        // M, or this M now finds the signal.
        fence(Ordering::SeqCst);
        Plat::point(Site::DeviceSignal);
        true
    }
}
