//! A second main G, and more Ms than were asked for; and the platform's conditions are nobody's promise.

use gmp_sched::native::{self, Native};
use gmp_sched::scheduler::Scheduler;

fn start_again(scheduler: &'static Scheduler<Native>) {
    let _ = scheduler.start(|| ());
}

fn main() {
    unsafe { native::enter() }.run_with(1, start_again);
}
