//! A device that is polled: channel 2 of the programmable interval timer (PIT). The driver reads a register until the
//! device is done, and keeps its CPU busy meanwhile.
//!
//! This is the third way in which a driver waits. The other two need an interrupt: the G blocks with its M, or it parks
//! alone (see [`disk`](crate::disk)). A poll is a system call that does not block its M. The M leaves its P, but the P
//! stays marked for this M, because most polls are short. If a poll takes long, sysmon retakes the P
//! ([`gmp_sched::sysmon`]), and other Gs run.

mod wait;

use core::hint::black_box;
use core::time::Duration;

use kernel_formats::calibration::PIT_HZ;

use crate::arch::x86_64::{pit, timer};
use crate::cpu::contexts::assert_may_block as assert_may_wait;

pub use self::wait::{NotCounting, wait};

/// If a countdown takes longer than twice its length plus this time (in nanoseconds), the PIT does not count at its
/// rate. This time is generous, because another thread may run on the CPU meanwhile.
const LATE_NS: u64 = 10_000_000;

/// The number of steps of the loop in which the driver pauses between two reads of the output. The driver pauses
/// because a read of a port takes as long as hundreds of instructions, and longer in a virtual machine.
const PAUSE: u32 = 1000;

/// Counts down the ticks in `duration`, at most 65,535 of them at a time.
fn poll(duration: Duration) -> Result<(), NotCounting> {
    let ticks = (duration.as_nanos() * u128::from(PIT_HZ)).div_ceil(1_000_000_000);
    let mut left = u64::try_from(ticks).unwrap_or(u64::MAX);
    while left > 0 {
        let count = u16::try_from(left).unwrap_or(u16::MAX);
        count_down(count)?;
        left -= u64::from(count);
    }
    Ok(())
}

fn count_down(count: u16) -> Result<(), NotCounting> {
    let length = u64::from(count) * 1_000_000_000 / PIT_HZ;
    let start = timer::now();
    pit::start(count);
    loop {
        // This thread may migrate to a CPU whose clock is behind, so the subtraction saturates. The clock is read
        // before the output, so a pause between the two reads is not mistaken for a PIT that does not count.
        let is_late = timer::now().saturating_sub(start) > 2 * length + LATE_NS;
        if pit::is_over() {
            // If there is no PIT, all bits of its ports read as 1, so the countdown seems to be over at once.
            let is_early = timer::now().saturating_sub(start) < length / 2;
            return if is_early { Err(NotCounting) } else { Ok(()) };
        }
        if is_late {
            return Err(NotCounting);
        }
        (0..PAUSE).for_each(|n| _ = black_box(n));
    }
}
