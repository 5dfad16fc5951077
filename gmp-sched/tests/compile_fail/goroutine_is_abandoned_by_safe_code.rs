//! What borrows from the frames that are left behind would dangle.

use gmp_sched::JoinError;
use gmp_sched::native::{self, Native};

fn main() {
    unsafe { native::enter() }.run(1, || gmp_sched::exit::abandon::<Native>(JoinError::Exited));
}
