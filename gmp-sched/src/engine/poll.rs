//! The ready list: the device signals that interrupt handlers have raised, which M takes them, and who makes an M do so.
//!
//! An M that searches for work polls the list where Go has its non-blocking `netpoll`: after the global queue, before
//! stealing. Every 61st slow pick also polls it, and so does a G that gives way (see `pick`).
//!
//! # No raise is lost
//!
//! `raise` publishes the signal, then executes a fence, then checks for an idle P. An M that goes idle releases its P,
//! then executes a fence, then checks the ready list. So at least one of the two sees what the other has published.
//!
//! If `raise` finds an idle P, it relies on an idle M, preferably the one that parked on the interrupted CPU
//! ([`Platform::parked_machine`]): no other CPU is interrupted then. `raise` unparks that M, which checks the ready list
//! and takes a P. It runs the G without having spun, and so wakes no further M. Before that, one of three things may
//! come between:
//!
//! - Another M takes the last idle P. The unparked M then preempts an M that runs a G.
//! - The M leaves the idle list because it is assigned a P for other work, or finds other work first.
//! - The thread of the M ends.
//!
//! In the last two cases the M clears its flag `polls`, then executes a fence, then checks the ready list, and makes
//! another M poll if a signal is there. `raise` relies only on an M whose flag it has seen set after its own fence. So
//! either the M sees the signal, or `raise` does not rely on the M.
//!
//! If `raise` finds no idle P, it preempts an M that runs a G, and that M then checks the ready list.

use core::ptr;

use crate::base::atomic::{Ordering, fence};
use crate::base::points::Site;
use crate::engine::park::ready_pinned;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::scheduler::Scheduler;
use crate::entities::signal::SignalList;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

impl<P: Platform> SignalList<P> {
    /// Calls `each` with the Gs whose signals were raised, in the order of the raises.
    fn take(&self, mut each: impl FnMut(&'static Goroutine<P>)) {
        P::point(Site::DeviceSignal);
        // Ordering: Acquire, to see the links that `raise` has stored. Partner: the push in `raise`.
        let mut newest_first = self.ready.swap(None, Ordering::Acquire);
        let mut oldest_first = None;
        while let Some(signal) = newest_first {
            newest_first = signal.next.load(Ordering::Relaxed);
            signal.next.store(oldest_first, Ordering::Relaxed);
            oldest_first = Some(signal);
        }
        while let Some(signal) = oldest_first {
            // The link is read first, because after the delivery the signal may be raised and linked again.
            oldest_first = signal.next.load(Ordering::Relaxed);
            if let Some(goroutine) = signal.deliver() {
                each(goroutine);
            }
        }
    }
}

impl<P: Platform> Scheduler<P> {
    /// Readies the Gs whose signals were raised, on the current P; returns whether there were any. Go: `netpoll(0)`.
    #[doc(alias = "netpoll")]
    #[inline]
    pub(crate) fn poll(&'static self, pinned: &Pinned<P>) -> bool {
        let mut any = false;
        self.poll_each(pinned, |goroutine| {
            ready_pinned(pinned, goroutine);
            any = true;
        });
        any
    }

    /// Calls `ready` for each G whose signal was raised, in the order of the raises. `ready` must ready the G.
    #[inline(always)]
    pub(crate) fn poll_each(&'static self, pinned: &Pinned<P>, mut ready: impl FnMut(&'static Goroutine<P>)) {
        if !self.signals.is_ready() {
            return;
        }
        let processor = pinned.machine().processor();
        self.signals.take(|goroutine| {
            if let Some(processor) = processor {
                processor.tracer.note::<P>(EventKind::Device, Some(goroutine.id()), 0);
            }
            ready(goroutine);
        });
    }

    /// Like [`poll`](Self::poll), for sysmon, which has no P. Each G goes to the global queue of its scheduler.
    pub(crate) fn poll_without_processor(&'static self) {
        let pinned = Pinned::new();
        self.signals.take(|goroutine| {
            self.note_outside(EventKind::Device, goroutine, 0);
            ready_pinned(&pinned, goroutine);
        });
    }

    /// Makes an M check the ready list soon: wakes an idle M if a P is idle, and otherwise preempts a G. Callable from
    /// interrupts. Go: `netpollBreak`.
    #[doc(alias = "netpollBreak")]
    pub(crate) fn wake_poller(&'static self) {
        // Ordering: see "No raise is lost" above. Partners: the fences in `Machine::go_idle` and
        // `Machine::stop_polling`.
        fence(Ordering::SeqCst);
        P::point(Site::DeviceSignal);
        if self.idle_processors.load(Ordering::Relaxed) != 0
            && let Some(machine) = self.find_poller()
        {
            P::unpark_thread(machine);
        } else {
            self.preempt_to_poll();
        }
    }

    /// Returns an idle M: the one that parked on this CPU, if it is still idle. To wake it, no other CPU has to be
    /// interrupted. Otherwise returns the timekeeper, which is known without a search.
    fn find_poller(&'static self) -> Option<&'static Machine<P>> {
        let known = [P::parked_machine(), self.timekeeper.load(Ordering::Acquire)];
        let is_poller =
            |machine: &&'static Machine<P>| machine.polls.load(Ordering::Relaxed) && ptr::eq(machine.scheduler(), self);
        known.into_iter().flatten().chain(self.machines()).find(is_poller)
    }

    /// Called by an M that was idle, after it has found something to do or has left the idle list for good. If a signal
    /// is on the ready list, its raise may have relied on this M. So another M has to be woken for it.
    #[inline]
    pub(crate) fn pass_signals_on(&'static self) {
        P::point(Site::DeviceSignal);
        if self.signals.is_ready() {
            self.wake_poller();
        }
    }

    /// Preempts an M that holds a P, if possible the M on this CPU, so that this M polls the signals. Called when every
    /// P is held or about to be held. Callable from interrupts.
    pub(crate) fn preempt_to_poll(&'static self) {
        let holder = P::current_machine().filter(|machine| machine.processor().is_some());
        if let Some(machine) = holder.or_else(|| self.machines().find(|machine| machine.processor().is_some())) {
            P::request_preemption(machine);
        }
    }
}
