//! Giving way: yield, preemption, and the g0 loop of an M.

use crate::find::find_runnable;
use crate::goroutine::{Goroutine, Status};
use crate::list::List;
use crate::machine::Machine;
use crate::park::{put_last, put_next};
use crate::platform::{Pinned, Platform};
use crate::primitives::Ordering;
use crate::switch::{Commit, execute, has_due_timer, leave, leave_for, leave_for_g0, pick_local};

impl<P: Platform> Machine<P> {
    /// What an M does all its life, on its thread's own stack: find a G, run it. Go: `mstart`, `schedule`.
    ///
    /// Called once by the platform's thread, pinned.
    #[doc(alias = "schedule")]
    pub fn run(&'static self) -> ! {
        let mut pinned = Pinned::assume();
        loop {
            let next = find_runnable(&pinned, self);
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
/// The caller is not a G with a P.
#[doc(alias = "Gosched")]
#[inline]
pub fn yield_now<P: Platform>() {
    let pinned = Pinned::<P>::new();
    let machine = pinned.machine();
    let (me, processor) = (machine.running_goroutine(), machine.held_processor());
    processor.counters.yields.add(1);
    if let Some(next) = pick_local(machine, processor) {
        drop(leave_for(pinned, machine, me, next, Commit::new(requeue_local, 0)));
    } else if machine.scheduler().global_length.load(Ordering::Relaxed) != 0 || has_due_timer(processor) {
        drop(leave_for_g0(pinned, me, Commit::new(requeue_global, 0)));
    }
}

/// Far side of a yield.
fn requeue_local<P: Platform>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, _: usize) {
    let machine = pinned.machine();
    let scheduler = machine.scheduler();
    if scheduler.global_length.load(Ordering::Relaxed) != 0 {
        requeue_global(pinned, goroutine, 0);
        return;
    }
    goroutine.set_status(Status::Runnable);
    put_last(scheduler, machine.held_processor(), goroutine);
    scheduler.submitted();
}

/// Far side of a preemption: the tail of the global queue, as in Go.
fn requeue_global<P: Platform>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, _: usize) {
    let scheduler = pinned.machine().scheduler();
    goroutine.set_status(Status::Runnable);
    let mut one = List::new();
    one.push_back(goroutine);
    scheduler.put_global(&mut scheduler.shared.lock(), &mut one);
    scheduler.submitted();
}

/// Far side of a displacement: first in line.
fn requeue_next<P: Platform>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, _: usize) {
    goroutine.set_status(Status::Runnable);
    let machine = pinned.machine();
    put_next(machine, machine.held_processor(), goroutine);
}

/// Takes the P from the calling G because its slice is over: it goes to the tail of the global queue. Go:
/// `gopreempt_m`.
///
/// The platform calls this where it interrupted a G in user code, after saving all its registers on its own stack, or
/// at the end of a pinned section in which a request came. Gives the pin back: raised once, perhaps on another M.
#[doc(alias = "gopreempt_m")]
pub fn preempt<P: Platform>(pinned: Pinned<P>) -> Pinned<P> {
    let machine = pinned.machine();
    machine.held_processor().counters.preemptions.add(1);
    leave(pinned, machine, machine.running_goroutine(), Commit::new(requeue_global, 0))
}

/// Runs the due timers of the current P, and if that readied a G, lets it run before the calling one, which comes next.
///
/// Called as [`preempt`] is.
pub fn displace_for_timers<P: Platform>(pinned: Pinned<P>) -> Pinned<P> {
    let machine = pinned.machine();
    let (me, processor) = (machine.running_goroutine(), machine.held_processor());
    if !crate::find::run_timers(&pinned, processor) {
        return pinned;
    }
    match pick_local(machine, processor) {
        Some(next) => leave_for(pinned, machine, me, next, Commit::new(requeue_next, 0)),
        None => pinned,
    }
}
