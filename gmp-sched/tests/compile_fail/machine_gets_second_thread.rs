//! An M has one flow of control, so only the scheduler may start its thread.

use gmp_sched::native::{self, Native};
use gmp_sched::platform::Platform;

fn main() {
    unsafe { native::enter() }.run_with(1, |scheduler| {
        let machine = scheduler.machines().next().unwrap();
        let _ = Native::start_thread(machine);
    });
}
