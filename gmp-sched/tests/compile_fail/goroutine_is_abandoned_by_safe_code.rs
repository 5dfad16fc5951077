//! References into the frames of an abandoned G would dangle.

use gmp_sched::JoinError;
use gmp_sched::native::{self, Native};

fn main() {
    unsafe { native::enter() }.run(1, || gmp_sched::exit::abandon::<Native>(JoinError::Exited));
}
