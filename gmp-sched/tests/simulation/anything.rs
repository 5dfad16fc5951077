//! What a G of a random program does between two steps.

use std::time::Duration;

use gmp_sched::sim;

use crate::explore::Random;

/// Returns a duration of `number` microseconds.
pub(crate) fn microseconds(number: u64) -> Duration {
    Duration::from_micros(number)
}

/// Yields, sleeps, computes, makes a system call or a blocking call, or does nothing.
pub(crate) fn anything(random: &mut Random) {
    match random.below(8) {
        0 => sim::yield_now(),
        1 => sim::sleep(microseconds(random.below(20))),
        2 => sim::work(microseconds(random.below(30))),
        3 => sim::syscall(microseconds(random.below(20))),
        4 => sim::block(microseconds(random.below(20))),
        _ => {}
    }
}
