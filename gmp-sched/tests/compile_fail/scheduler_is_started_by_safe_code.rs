//! Safe code must not start a scheduler. A second start would create another main G and more Ms, and safe code does not
//! promise what the platform requires.

use gmp_sched::native::{self, Native};
use gmp_sched::scheduler::Scheduler;

fn start_again(scheduler: &'static Scheduler<Native>) {
    let _ = scheduler.start(|| ());
}

fn main() {
    unsafe { native::enter() }.run_with(1, start_again);
}
