//! Stopping the world: every P except the caller's stops, and no other G runs until the world is started again.
//!
//! ```text
//!   idle ──(taken by the stopper, under the lock)───────────────┐
//!   running ──(its M releases it when it next picks a G)────────┼──▶ Stopped ──(start)──▶ idle, or an M for its work
//!   syscall, handed off ──(by the M or sysmon that hands it off)───┘      ▲
//!   syscall ──(exchange of the status word, by the stopper)──▶ StoppedInSyscall ──(start)──▶ syscall
//!                                                              (its M comes back meanwhile)
//! ```
//!
//! The stopper sets `stopping` and takes the idle Ps in one critical section of the scheduler lock. From then on no P
//! becomes idle and none is assigned. An M that holds a P checks the flag before it picks another G: on g0 in
//! `find_runnable`, in a G at the end of a system call, and in [`give_way`](crate::engine::preempt::give_way). The
//! stopper requests a preemption of running Gs by [`Platform::request_preemption`]. It also requests a slow pick on
//! their Ps, so that a G that leaves by itself leaves for g0. So a switch from G to G need not check the flag.
//!
//! The M that releases the last P, or sysmon if it hands this P off, unparks the stopper. As in Go, the stopper checks
//! the other Ps again every 100 us, for two reasons. The M of a P may have begun a system call after the first check.
//! Or the request may have come when the G could not be preempted.
//!
//! A P in a system call is stopped without its M. If the call lasts longer than the stop, the M does not notice the
//! stop.

use core::mem;
use core::time::Duration;

use crate::base::atomic::{Ordering, fence};
use crate::base::list::List;
use crate::base::points::Site;
use crate::engine::enqueue::requeue_next;
use crate::engine::hooks::Window;
use crate::engine::hooks::before_wait;
use crate::engine::park::park_with;
use crate::engine::ready::ready_pinned;
use crate::engine::switch::leave;
use crate::engine::wake::Assignment;
use crate::entities::current::CurrentGoroutine;
use crate::entities::events::Leave;
use crate::entities::goroutine::WaitReason;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::entities::window::At;
pub use crate::entities::world_stop::{StopReason, Stops};
use crate::platform::{Parking, Pinned, Platform};
use crate::record::trace::{EventKind, PreemptReason};

/// How long the stopper waits before it repeats its request to the Ps that have not stopped.
const ROUND: Duration = Duration::from_micros(100);

/// The right to stop the world. Go: holding `worldsema`.
#[derive(Debug)]
pub(crate) struct StopRight<Plat: Platform> {
    scheduler: &'static Scheduler<Plat>,
}

impl<Plat: Platform> StopRight<Plat> {
    /// Takes the right to stop the world. If another G holds it, waits.
    #[cfg_attr(feature = "std", track_caller)]
    pub(crate) fn wait() -> Self {
        before_wait::<Plat>();
        let pinned = Pinned::<Plat>::of_scheduler();
        let scheduler = pinned.machine().scheduler();
        if !scheduler.world.acquire(None) {
            // The G that passes the right on readies this G. If the right was released in the meantime, this G does not
            // park.
            let caller = CurrentGoroutine::of(pinned);
            drop(park_with(caller, WaitReason::StoppingTheWorld, |_, me| !scheduler.world.acquire(Some(me))));
        }
        Self { scheduler }
    }

    /// Stops the world. The caller must not be pinned. The returned value keeps the caller pinned until the world
    /// starts again.
    pub(crate) fn stop(self, reason: StopReason) -> WorldStopped<Plat> {
        let pinned = Pinned::<Plat>::of_scheduler();
        let start = Plat::now();
        let window = Window::<Plat>::open(At::WorldStop);
        self.scheduler.stop(&pinned);
        let took = Plat::now() - start;
        let mut queue = self.scheduler.world.queue.lock();
        queue.stops.count += 1;
        if queue.stops.longest_for.is_none() || took > queue.stops.longest {
            queue.stops.longest = took;
            queue.stops.longest_for = Some(reason);
        }
        drop(queue);
        let machine = pinned.machine();
        machine.held_processor().tracer.note::<Plat>(EventKind::WorldStop, Some(machine.running_goroutine().id()), 0);
        machine.forbid_waits();
        window.close();
        WorldStopped { right: self, pinned }
    }
}

impl<Plat: Platform> Drop for StopRight<Plat> {
    /// Passes the right on to the G that has waited for it longest. If no G waits, releases the right.
    fn drop(&mut self) {
        let pinned = Pinned::<Plat>::of_scheduler();
        let next = {
            let mut queue = self.scheduler.world.queue.lock();
            let next = queue.waiting.pop_front();
            queue.is_taken = next.is_some();
            next
        };
        if let Some(goroutine) = next {
            ready_pinned(&pinned, goroutine);
        }
    }
}

/// While this value exists, only the G that owns it runs. When that G drops it, the world starts again.
///
/// Until then that G is pinned: it is not preempted, and panics if it blocks, yields or makes a system call. It may
/// inspect other Gs, allocate, print, spawn Gs and ready Gs. The Gs that it spawns or readies run when the world has
/// started. Gs in a system call continue their call, and wait at its end.
///
/// If a signal preempts Gs ([`native::set_preemption`](crate::native::set_preemption)), the G must not allocate, spawn
/// or print: a G that was stopped may hold a lock of the C library, and does not release it before the world starts.
#[must_use = "the world starts again when this is dropped"]
#[derive(Debug)]
pub struct WorldStopped<Plat: Platform> {
    // The fields are dropped in this order, so that the caller is still pinned when the drop of `right` readies the
    // next G that is to stop the world.
    right: StopRight<Plat>,
    pub(crate) pinned: Pinned<Plat>,
}

/// Stops the world: when this returns, no G but the caller runs. Go: `stopTheWorld`.
///
/// Only one G at a time may stop the world. If another G has stopped the world or is about to, waits until that G has
/// started the world again; the Gs that wait here continue in FIFO order. Then waits until every running G reaches a
/// point where it can be preempted. On platforms without preemption, that point is where the G next begins an operation
/// that may wait, yields, ends or returns from a system call. Blocks; not callable from interrupts.
///
/// ```
/// use gmp_sched::native;
///
/// unsafe { native::enter() }.run(2, || {
///     let world = native::stop_the_world();
///     // No other G runs here.
///     drop(world);
/// });
/// ```
///
/// # Panics
///
/// The caller is pinned or is not a G with a P. (A G that has stopped the world already is pinned.)
#[doc(alias = "stopTheWorld")]
#[track_caller]
pub fn stop_the_world<Plat: Platform>(reason: StopReason) -> WorldStopped<Plat> {
    drop(CurrentGoroutine::<Plat>::new());
    StopRight::wait().stop(reason)
}

impl<Plat: Platform> Drop for WorldStopped<Plat> {
    /// Starts the world again. Go: `startTheWorld`.
    fn drop(&mut self) {
        let window = Window::<Plat>::open(At::WorldStart);
        let machine = self.pinned.machine();
        machine.held_processor().tracer.note::<Plat>(EventKind::WorldStart, Some(machine.running_goroutine().id()), 0);
        machine.allow_waits();
        self.right.scheduler.start_again(&self.pinned);
        window.close();
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Returns how many times the world was stopped, and how long the slowest stop took. Takes a lock; not callable
    /// from interrupts.
    #[must_use]
    pub fn stops(&'static self) -> Stops {
        let _pinned = Pinned::<Plat>::of_scheduler();
        self.world.queue.lock().stops
    }

    /// Requests the stop, then waits until all Ps but the caller's have stopped. Go: `stopTheWorldWithSema`.
    fn stop(&'static self, pinned: &Pinned<Plat>) {
        let machine = pinned.machine();
        self.begin_to_stop(machine);
        while !self.has_stopped(machine.held_processor()) {
            Plat::park_thread(Parking::new(pinned), Some(Plat::now() + ROUND));
        }
    }

    /// Sets the flag `stopping` and stops the idle Ps. From then on, no P becomes idle and none is assigned.
    pub(crate) fn begin_to_stop(&'static self, stopper: &'static Machine<Plat>) {
        let mut shared = self.shared.lock();
        shared.unstopped = self.procs() - 1;
        shared.stopper = Some(stopper);
        self.world.stopping.store(true, Ordering::Relaxed);
        while let Some(processor) = self.take_idle_processor(&mut shared) {
            stop_processor(self, &mut shared, processor);
        }
    }

    /// Asks the running Ps to stop, and stops the Ps in system calls. Returns whether all Ps other than `own`, the
    /// stopper's P, have stopped.
    pub(crate) fn has_stopped(&'static self, own: &'static Processor<Plat>) -> bool {
        self.ask_to_stop(own);
        // Ordering: the holders of the other Ps took this lock when they stopped. So this critical section happens
        // after everything that they did before they stopped.
        let all_stopped = self.shared.lock().unstopped == 0;
        self.world.stopped.store(all_stopped, Ordering::Relaxed);
        all_stopped
    }

    fn count_stopped(&self, shared: &mut Shared<Plat>) {
        shared.unstopped -= 1;
        if shared.unstopped == 0
            && let Some(stopper) = shared.stopper
        {
            Plat::unpark_thread(stopper);
        }
    }

    /// Asks every running P to stop, and stops the Ps in system calls. Go: `preemptall`, and the part of
    /// `stopTheWorldWithSema` that retakes Ps in system calls.
    #[doc(alias = "preemptall")]
    fn ask_to_stop(&'static self, own: &'static Processor<Plat>) {
        // Ordering: the partner of this fence is the fence at the end of a system call, in `has_to_stop`. Either the M
        // that returns from its system call sees `stopping`, or the stopper sees that this M holds its P.
        fence(Ordering::SeqCst);
        for processor in self.processors() {
            Plat::point(Site::Syscall);
            if processor.status.stop_in_syscall() {
                self.count_stopped(&mut self.shared.lock());
            }
        }
        for machine in self.machines() {
            if let Some(processor) = machine.processor()
                && !core::ptr::eq(processor, own)
            {
                processor.request_slow_pick();
                Plat::request_preemption(machine);
            }
        }
    }

    /// Starts the world. Go: `startTheWorldWithSema`.
    pub(crate) fn start_again(&'static self, pinned: &Pinned<Plat>) {
        debug_assert!(self.is_stopped() && pinned.machine().processor().is_some());
        {
            let mut shared = self.shared.lock();
            shared.stopper = None;
            // From here until `pass_search_on` below returns, the caller counts as a spinning M, so submitters wake no
            // M. The caller is counted before the first P becomes idle.
            self.spinning.fetch_add(1, Ordering::SeqCst);
            self.world.stopped.store(false, Ordering::Relaxed);
            self.world.stopping.store(false, Ordering::Relaxed);
            self.give_processors_back(&mut shared);
            // The loop runs in reverse order, so that P0 comes first on the idle list and is used first.
            for processor in self.processors().iter().rev() {
                match processor.status() {
                    ProcessorStatus::StoppedInSyscall => processor.status.set(ProcessorStatus::Syscall),
                    ProcessorStatus::Stopped if processor.has_work() => {
                        processor.status.set(ProcessorStatus::Running);
                        Plat::unpark_thread(self.assign_to_idle(&mut shared, processor, Assignment::Run));
                    }
                    ProcessorStatus::Stopped => self.put_idle_processor(&mut shared, processor),
                    _ => {}
                }
            }
        }
        // As in Go, an M is woken to search for work. That M finds the Gs that were queued before the stop, and those
        // whose submitters woke no M because the caller counted as spinning. If it finds none and goes idle, it wakes
        // the timekeeper for the timers of the idle Ps. If it finds one, it wakes another M to search, as long as a P
        // is idle. So the start itself need not wake the timekeeper.
        self.pass_search_on();
    }

    /// Assigns to each idle M the P that it gave up when the world was stopped, if that P has work, and unparks the M.
    /// Called under the lock when the world is started again, before any stopped P is in use. Go 1.26: `procresize`.
    fn give_processors_back(&self, shared: &mut Shared<Plat>) {
        let mut idle = mem::replace(&mut shared.idle_machines, List::new());
        while let Some(machine) = idle.pop_front() {
            let left = machine.stopped_processor.swap(None, Ordering::Relaxed);
            match left.filter(|processor| processor.status() == ProcessorStatus::Stopped && processor.has_work()) {
                Some(processor) => {
                    processor.status.set(ProcessorStatus::Running);
                    machine.set_assigned(processor, Assignment::Run);
                    Plat::unpark_thread(machine);
                }
                None => shared.idle_machines.push_back(machine),
            }
        }
        self.update_idle_machines(shared);
    }
}

/// Marks `processor`, which the caller owns, as stopped. Wakes the stopper if no other P has to stop any more.
pub(crate) fn stop_processor<Plat: Platform>(
    scheduler: &Scheduler<Plat>,
    shared: &mut Shared<Plat>,
    processor: &'static Processor<Plat>,
) {
    processor.status.set(ProcessorStatus::Stopped);
    scheduler.count_stopped(shared);
}

/// Called by an M that returns from a system call and finds no P. If `processor`, which it held before, was stopped
/// during the call, makes it an ordinary stopped P, which no M in a system call could take back, and returns `true`.
pub(crate) fn leave_stopped<Plat: Platform>(processor: &Processor<Plat>) -> bool {
    let is_stopped = processor.status() == ProcessorStatus::StoppedInSyscall;
    if is_stopped {
        processor.tracer.note::<Plat>(EventKind::Stop, None, 0);
        processor.status.set(ProcessorStatus::Stopped);
    }
    is_stopped
}

/// Called when the world is to stop. The calling G goes to `runnext` of its P, or, if it is locked, to the list of
/// locked Gs. So it usually runs as soon as the world has started again. Go: `goschedImpl` with `preempted`.
#[cold]
pub(crate) fn give_way_to_stop<Plat: Platform>(caller: CurrentGoroutine<Plat>) -> Pinned<Plat> {
    let CurrentGoroutine { pinned, machine, me, .. } = caller;
    leave(pinned, machine, me, None, Leave::GiveWay(PreemptReason::WorldStop), requeue_next)
}

/// Gives up the P of `machine` if the world is to stop. The caller then waits until it is assigned a P. Called on g0.
/// Go: `gcstopm`.
#[doc(alias = "gcstopm")]
#[cold]
pub(crate) fn stop_for_world<Plat: Platform>(machine: &'static Machine<Plat>) {
    let scheduler = machine.scheduler();
    let mut shared = scheduler.shared.lock();
    // The world may have been started again since the caller checked `is_stopping`.
    if !scheduler.is_stopping() {
        return;
    }
    let Some(processor) = machine.processor() else { return };
    processor.tracer.note::<Plat>(EventKind::Stop, None, 0);
    machine.set_processor(None);
    machine.stopped_processor.store(Some(processor), Ordering::Relaxed);
    scheduler.put_idle_machine(&mut shared, machine);
    machine.end_spinning();
    stop_processor(scheduler, &mut shared, processor);
}
