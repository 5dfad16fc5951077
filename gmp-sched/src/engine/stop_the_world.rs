//! Stopping the world: every P but the caller's stands still, and no G but the caller runs, until it starts again.
//!
//! ```text
//!   idle ──(taken by the stopper, under the lock)───────────────┐
//!   running ──(its M gives it up when it next picks a G)────────┼──▶ Stopped ──(start)──▶ idle, or an M for its work
//!   syscall, handed off ──(by whoever hands it off)─────────────┘      ▲
//!   syscall ──(exchange of the status word, by the stopper)──▶ StoppedInSyscall ──(start)──▶ syscall
//!                                                              (its M comes back meanwhile)
//! ```
//!
//! The stopper raises `stopping` and takes the idle Ps in one hold of the scheduler lock: from there on no P becomes idle
//! and none is given to anybody. Who still has one comes upon the flag before it picks another G: on g0 in
//! `find_runnable`, in a G at the end of a system call, and at [`give_way`](crate::engine::preempt::give_way). A G that runs is
//! asked to come there by [`Platform::request_preemption`]; and its P is told that it is the global queue's turn, so
//! that a G that leaves of its own accord goes by g0. So nothing on the way from G to G looks at the flag.
//!
//! Whoever gives the last P up unparks the stopper. It looks at the others again every 100 us, as in Go: for a P that it
//! found running and whose M has begun a system call since, and for a request that came when the G could not be asked.
//!
//! A P in a system call is stopped without its M: if the call lasts longer than the stop, it notices nothing.

use core::time::Duration;

use crate::base::atomic::{Ordering, fence};
use crate::base::points::Site;
use crate::engine::caller::Caller;
use crate::engine::idle::Errand;
use crate::engine::park::{park_pinned, ready_pinned};
use crate::entities::goroutine::WaitReason;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::{Scheduler, Shared};
pub use crate::entities::world_stop::{StopReason, Stops};
use crate::platform::{Parking, Pinned, Platform};

/// How long the stopper waits before it looks again at the Ps that have not stopped.
const ROUND: Duration = Duration::from_micros(100);

/// The right to stop the world. Go: holding `worldsema`.
#[derive(Debug)]
pub(crate) struct Turn<P: Platform> {
    scheduler: &'static Scheduler<P>,
}

impl<P: Platform> Turn<P> {
    /// Waits until nobody else has it.
    pub(crate) fn wait() -> Self {
        let pinned = Pinned::<P>::new();
        let scheduler = pinned.machine().scheduler();
        if !scheduler.world.take_turn(None) {
            // Readied by whoever hands it on; or not parked at all, if it was given back in the meantime.
            park_pinned(pinned, WaitReason::StoppingTheWorld, |_, me| !scheduler.world.take_turn(Some(me)));
        }
        Self { scheduler }
    }

    /// Stops the world. The caller has the turn and is pinned once.
    pub(crate) fn stop(self, reason: StopReason) -> WorldStopped<P> {
        let pinned = Pinned::<P>::new();
        let start = P::now();
        self.scheduler.stop(&pinned);
        let took = P::now().since(start);
        let mut turns = self.scheduler.world.turns.lock();
        turns.stops.count += 1;
        if turns.stops.longest_for.is_none() || took > turns.stops.longest {
            turns.stops.longest = took;
            turns.stops.longest_for = Some(reason);
        }
        drop(turns);
        WorldStopped { turn: self, pinned }
    }
}

impl<P: Platform> Drop for Turn<P> {
    /// Hands it to who has waited longest.
    fn drop(&mut self) {
        let pinned = Pinned::<P>::new();
        let next = {
            let mut turns = self.scheduler.world.turns.lock();
            let next = turns.waiting.pop_front();
            turns.is_taken = next.is_some();
            next
        };
        if let Some(goroutine) = next {
            ready_pinned(&pinned, goroutine);
        }
    }
}

/// The world stands still, but for the G that has this; it starts again when this is dropped, on the same G.
///
/// Until then that G is pinned: it is not preempted, and may neither block, nor yield, nor make a system call (they
/// panic). It may read whatever the others were at, allocate, print, spawn Gs and make Gs runnable, which run when the
/// world starts. Gs that are in a system call go on with it, and wait at its end.
#[must_use = "the world starts again when this is dropped"]
#[derive(Debug)]
pub struct WorldStopped<P: Platform> {
    // Dropped in this order: the next in turn is readied while pinned.
    turn: Turn<P>,
    pub(crate) pinned: Pinned<P>,
}

/// Stops the world: when this returns, no G but the caller runs. Go: `stopTheWorld`.
///
/// Waits its turn if somebody else has stopped it or is about to, first come, first served; then for every G to come to
/// a place where it can be left. Where nothing preempts that is its next call of the scheduler. Blocks; not callable from
/// interrupts.
///
/// ```
/// use gmp_sched::native;
///
/// unsafe { native::enter() }.run(2, || {
///     let world = native::stop_the_world();
///     // Nobody else runs here.
///     drop(world);
/// });
/// ```
///
/// # Panics
///
/// The caller is not a G with a P, or is pinned, as it is when it has stopped the world already.
#[doc(alias = "stopTheWorld")]
#[track_caller]
pub fn stop_the_world<P: Platform>(reason: StopReason) -> WorldStopped<P> {
    drop(Caller::<P>::new());
    Turn::wait().stop(reason)
}

impl<P: Platform> Drop for WorldStopped<P> {
    /// Go: `startTheWorld`.
    fn drop(&mut self) {
        self.turn.scheduler.start_again(&self.pinned);
    }
}

impl<P: Platform> Scheduler<P> {
    /// Whether Ms are to give their Ps up. Go: `gcwaiting`.
    #[doc(alias = "gcwaiting")]
    #[inline(always)]
    pub(crate) fn is_stopping(&self) -> bool {
        self.world.stopping.load(Ordering::Relaxed)
    }

    /// Whether the world stands still. Callable from interrupts.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.world.stopped.load(Ordering::Relaxed)
    }

    /// How often and how long. Takes a lock; not callable from interrupts.
    #[must_use]
    pub fn stops(&'static self) -> Stops {
        let _pinned = Pinned::<P>::new();
        self.world.turns.lock().stops
    }

    /// Go: `stopTheWorldWithSema`.
    fn stop(&'static self, pinned: &Pinned<P>) {
        let machine = pinned.machine();
        self.begin_to_stop(machine);
        while !self.has_stopped(machine.held_processor()) {
            P::park_thread(Parking::new(pinned), Some(P::now().after(ROUND)));
        }
    }

    /// From here on no P becomes idle, and none is given to anybody.
    pub(crate) fn begin_to_stop(&'static self, stopper: &'static Machine<P>) {
        let mut shared = self.shared.lock();
        shared.unstopped = self.procs() - 1;
        shared.stopper = Some(stopper);
        self.world.stopping.store(true, Ordering::Relaxed);
        while let Some(processor) = self.take_idle_processor(&mut shared) {
            self.stop_processor(&mut shared, processor);
        }
    }

    /// Asks those to stop that go on; tells whether all stand but `own`, the stopper's P.
    pub(crate) fn has_stopped(&'static self, own: &'static Processor<P>) -> bool {
        self.ask_to_stop(own);
        // Ordering: what the others did before they stopped was done before they took the lock, which we take after them.
        let stands = self.shared.lock().unstopped == 0;
        self.world.stopped.store(stands, Ordering::Relaxed);
        stands
    }

    /// `processor`, which is the caller's to dispose of, stands. Wakes the stopper if it was the last.
    pub(crate) fn stop_processor(&self, shared: &mut Shared<P>, processor: &'static Processor<P>) {
        processor.status.set(ProcessorStatus::Stopped);
        self.count_stopped(shared);
    }

    fn count_stopped(&self, shared: &mut Shared<P>) {
        shared.unstopped -= 1;
        if shared.unstopped == 0
            && let Some(stopper) = shared.stopper
        {
            P::unpark_thread(stopper);
        }
    }

    /// One round over the Ps that go on. Go: `preemptall`, and the grab of Ps in system calls.
    #[doc(alias = "preemptall")]
    fn ask_to_stop(&'static self, own: &'static Processor<P>) {
        // Ordering: partner is the fence in a system call's end: either it sees the flag or we see that its P is held.
        fence(Ordering::SeqCst);
        for processor in self.processors() {
            P::point(Site::Syscall);
            if processor.status.stop_in_syscall() {
                self.count_stopped(&mut self.shared.lock());
            }
        }
        for machine in self.machines() {
            if let Some(processor) = machine.processor()
                && !core::ptr::eq(processor, own)
            {
                processor.look_at_next_pick();
                P::request_preemption(machine);
            }
        }
    }

    /// The world goes on. Go: `startTheWorldWithSema`.
    pub(crate) fn start_again(&'static self, pinned: &Pinned<P>) {
        debug_assert!(self.is_stopped() && pinned.machine().processor().is_some());
        {
            let mut shared = self.shared.lock();
            shared.stopper = None;
            // Before the first P is idle: the caller counts as spinning until it has woken an M that is.
            self.spinning.fetch_add(1, Ordering::SeqCst);
            self.world.stopped.store(false, Ordering::Relaxed);
            self.world.stopping.store(false, Ordering::Relaxed);
            self.give_processors_back(&mut shared);
            // Backwards: the idle list is used from the front.
            for processor in self.processors().iter().rev() {
                match processor.status() {
                    ProcessorStatus::StoppedInSyscall => processor.status.set(ProcessorStatus::Syscall),
                    ProcessorStatus::Stopped if processor.has_work() => {
                        processor.status.set(ProcessorStatus::Running);
                        P::unpark_thread(self.assign(&mut shared, processor, Errand::Run));
                    }
                    ProcessorStatus::Stopped => self.put_idle_processor(&mut shared, processor),
                    _ => {}
                }
            }
        }
        // Ordering: as for all who put Ps on the idle list, partner is the fence of whoever sets a timer, in `tell_timekeeper`.
        fence(Ordering::SeqCst);
        let earliest = self.processors().iter().map(|processor| processor.timers.earliest()).min();
        if let Some(earliest) = earliest {
            self.tell_timekeeper(earliest);
        }
        // That M searches whatever there is to find, as in Go: what was queued before, and what others left to the spinner.
        self.pass_search_on();
    }
}

impl<P: Platform> Machine<P> {
    /// Gives the P up if the world is to stop; the caller looks for another afterwards. Called on g0. Go: `gcstopm`.
    #[doc(alias = "gcstopm")]
    #[cold]
    pub(crate) fn stop_for_world(&'static self) {
        let scheduler = self.scheduler();
        let mut shared = scheduler.shared.lock();
        // It may have started again by now.
        if !scheduler.is_stopping() {
            return;
        }
        let Some(processor) = self.processor() else { return };
        self.set_processor(None);
        self.stopped_processor.store(Some(processor), Ordering::Relaxed);
        scheduler.put_idle_machine(&mut shared, self);
        if self.spinning.swap(false, Ordering::Relaxed) {
            scheduler.spinning.fetch_sub(1, Ordering::SeqCst);
        }
        scheduler.stop_processor(&mut shared, processor);
    }
}
