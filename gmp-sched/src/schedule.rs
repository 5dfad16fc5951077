//! The g0 loop of an M, and giving way of one's own accord.

use crate::find::find_runnable;
use crate::goroutine::{Goroutine, Status};
use crate::list::List;
use crate::machine::Machine;
use crate::park::put_last;
use crate::platform::{Pinned, Platform};
use crate::primitives::Ordering;
use crate::switch::{Commit, execute, has_due_timer, leave_for, leave_for_g0, pick_local};

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

/// Far side of a preemption, and of a yield where the global queue has work: its tail.
pub(crate) fn requeue_global<P: Platform>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>, _: usize) {
    let scheduler = pinned.machine().scheduler();
    goroutine.set_status(Status::Runnable);
    let mut one = List::new();
    one.push_back(goroutine);
    scheduler.put_global(&mut scheduler.shared.lock(), &mut one);
    scheduler.submitted();
}
