//! The g0 loop of an M, and giving way of one's own accord.

use crate::base::atomic::Ordering;
use crate::base::run_queue::Slice;
use crate::engine::caller::Caller;
use crate::engine::find::find_runnable;
use crate::engine::observe;
use crate::engine::park::put_last;
use crate::engine::steal::{steal_at_once, steal_due};
use crate::engine::switch::{Commit, FarSide, execute, leave_for, leave_for_g0, pick_after_look, pick_at_once};
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::NewMachine;
use crate::entities::processor::{Processor, has_due_timer};
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

impl<P: Platform> NewMachine<P> {
    /// What an M does all its life, on its thread's own stack: find a G, run it. Go: `mstart`, `schedule`.
    ///
    /// Called by the thread that [`Platform::start_thread`] made, pinned once.
    #[doc(alias = "schedule")]
    pub fn run(self) -> ! {
        let machine = self.machine();
        let mut pinned = Pinned::assume();
        loop {
            let next = match machine.locked_goroutine() {
                None => find_runnable(&pinned, machine),
                Some(locked) => {
                    machine.wait_for_locked(&pinned, locked);
                    locked
                }
            };
            pinned = execute(pinned, next);
        }
    }
}

/// Lets the other Gs of this P run first. Go: `runtime.Gosched`.
///
/// The caller goes to the tail of the local ring; if the global queue has work or the ring is full, to the tail of the
/// global queue. (Go always uses the global queue; as long as that is empty the order is the same, and no lock is
/// needed.) Returns at once where nothing else is to be run. Not callable from interrupts.
///
/// # Panics
///
/// The caller is not a G with a P, or has preemption turned off.
#[doc(alias = "Gosched")]
// Always inlined: the processor takes the return from a function that has switched stacks for one to where the G before
// this one called it, which costs 13 ns of the 19 that a yield would take on threads.
#[inline(always)]
#[track_caller]
pub fn yield_now<P: Platform>() {
    let caller = Caller::<P>::new();
    let processor = caller.processor;
    processor.counters.yields.add(1);
    if processor.is_look_wanted() {
        yield_after_look(caller.pinned);
    } else {
        yield_to_picked(caller, pick_at_once(processor));
    }
}

/// A yield whose pick has to look further. Apart, so that the registers it needs are not saved by every yield.
#[cold]
#[inline(never)]
fn yield_after_look<P: Platform>(pinned: Pinned<P>) {
    let caller = Caller::of(pinned);
    let picked = pick_after_look(&caller);
    yield_to_picked(caller, picked);
}

#[inline(always)]
fn yield_to_picked<P: Platform>(caller: Caller<P>, picked: Option<(&'static Goroutine<P>, Slice)>) {
    let processor = caller.processor;
    let Some((next, slice)) = picked else {
        yield_beyond(caller.pinned, processor, caller.me);
        return;
    };
    let scheduler = caller.machine.scheduler();
    let commit = if scheduler.global_length.load(Ordering::Relaxed) != 0 {
        Commit::new(requeue_global, 0)
    } else if slice == Slice::Inherited {
        Commit::on::<RequeueLast>(processor)
    } else {
        Commit::chosen(&processor.requeue, processor)
    };
    drop(leave_for(caller, next, commit));
}

/// The slice is over of a G that leaves, where nothing interrupts it: what it readied is not to go on in its place. Those in
/// the ring come first, those of others if it is empty; and the global queue, as it would if the G had been preempted.
#[cold]
pub(crate) fn pass_turn<P: Platform>(pinned: &Pinned<P>, processor: &'static Processor<P>) {
    processor.forget_slice();
    // Without locks of Gs: the caller may have one until the far side.
    if processor.queue_length() == 0
        && let Some(stolen) = steal_at_once(pinned, processor)
    {
        put_last(pinned.machine().scheduler(), processor, stolen);
    }
    if let Some(next) = processor.queue.pop_next() {
        processor.counters.preemptions.add(1);
        put_last(pinned.machine().scheduler(), processor, next);
    }
    processor.set_global_turn();
}

/// A yield of a G that is the only one of its P: g0 looks further if there is reason to. Apart, as above.
#[cold]
#[inline(never)]
fn yield_beyond<P: Platform>(pinned: Pinned<P>, processor: &'static Processor<P>, me: &'static Goroutine<P>) {
    let scheduler = pinned.machine().scheduler();
    // A locked G comes here also if others wait on its P, and goes into no local queue.
    let others_wait = me.is_locked() && (processor.has_work() || scheduler.is_stopping());
    if others_wait || scheduler.has_work_for_all() || has_due_timer(processor) || scheduler.poller.is_ready() {
        drop(leave_for_g0(pinned, me, Commit::new(requeue_global, 0)));
    } else if scheduler.is_stopping() {
        drop(leave_for_g0(pinned, me, Commit::on::<RequeueLast>(processor)));
    } else {
        yield_alone(pinned, processor, me);
    }
}

/// Yields without anything else to run after which a G does something for the Gs of other Ps.
const LONE_YIELDS: u32 = 64;

/// A yield with nothing to run on this P and for all: once in a while the G makes way for those of other Ps, as if this one
/// were idle. One that spins may wait for a G that has no other way to run; golang/go#13546.
fn yield_alone<P: Platform>(pinned: Pinned<P>, processor: &'static Processor<P>, me: &'static Goroutine<P>) {
    // Each is the end of a slice.
    processor.advance_tick();
    if !processor.tick().is_multiple_of(LONE_YIELDS) || processor.is_alone() {
        return;
    }
    // What a timer of another P does may have put Gs on this one.
    let found = steal_due(&pinned, processor)
        .or_else(|| processor.pop_local().map(|(goroutine, _)| goroutine))
        .or_else(|| steal_at_once(&pinned, processor));
    let Some(found) = found else { return };
    if me.is_locked() {
        // Its M runs no other G, but gives the P away.
        put_last(pinned.machine().scheduler(), processor, found);
        drop(leave_for_g0(pinned, me, Commit::new(requeue_global, 0)));
    } else {
        drop(leave_for(Caller::of(pinned), found, Commit::on::<RequeueLast>(processor)));
    }
}

impl<P: Platform> Scheduler<P> {
    /// Chooses how a G that yields is put back on `processor`, so that the yield does not have to look: to be called
    /// when the number of Ps has changed, or which Gs are watched.
    pub(crate) fn choose_requeue(&self, processor: &Processor<P>) {
        processor.set_alone(self.procs() == 1);
        if processor.watch.wants_all() {
            processor.requeue.set::<RequeueWatched>();
        } else if processor.is_alone() {
            processor.requeue.set::<RequeueAlone>();
        } else {
            processor.requeue.set::<RequeueLocal>();
        }
    }
}

/// Far side of a yield to a G from the ring: the tail of the ring, where that one left room.
pub(crate) struct RequeueLocal;

impl<P: Platform> FarSide<P> for RequeueLocal {
    fn arrived(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, processor: &'static Processor<P>) {
        RequeueAlone::arrived(pinned, goroutine, processor);
        pinned.machine().scheduler().submitted_among_others();
    }
}

/// [`RequeueLocal`] where there is no other P that could be idle.
struct RequeueAlone;

impl<P: Platform> FarSide<P> for RequeueAlone {
    #[inline(always)]
    fn arrived(_: &Pinned<P>, goroutine: &'static Goroutine<P>, processor: &'static Processor<P>) {
        goroutine.set_status(Status::Runnable);
        processor.queue.push_back_after_pop(goroutine);
    }
}

/// [`RequeueLocal`] while every G is watched.
struct RequeueWatched;

impl<P: Platform> FarSide<P> for RequeueWatched {
    fn arrived(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, processor: &'static Processor<P>) {
        processor.tracer.note::<P>(EventKind::Yield, Some(goroutine.id()), 0);
        observe::stamp(goroutine);
        RequeueLocal::arrived(pinned, goroutine, processor);
    }
}

/// Far side of a yield to the G in `runnext`: the tail of the ring, which may be full.
struct RequeueLast;

impl<P: Platform> FarSide<P> for RequeueLast {
    fn arrived(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, processor: &'static Processor<P>) {
        let scheduler = pinned.machine().scheduler();
        observe::runnable_again(processor, goroutine);
        goroutine.set_status(Status::Runnable);
        put_last(scheduler, processor, goroutine);
        scheduler.submitted();
    }
}

/// Far side of a preemption, and of a yield where the global queue has work: its tail.
pub(crate) fn requeue_global<P: Platform>(pinned: Pinned<P>, goroutine: &'static Goroutine<P>, _: usize) -> Pinned<P> {
    let scheduler = pinned.machine().scheduler();
    observe::runnable_again(pinned.processor(), goroutine);
    goroutine.set_status(Status::Runnable);
    scheduler.put_global_one(&mut scheduler.shared.lock(), goroutine);
    scheduler.submitted();
    pinned
}
