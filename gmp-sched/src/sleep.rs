//! Sleeping until a point in time.

use core::time::Duration;

use crate::goroutine::WaitReason;
use crate::park::park_pinned;
use crate::platform::{OutOfResources, Pinned, Platform};

/// Lets the calling G sleep for `duration`; returns at once if that is zero. Go: `time.Sleep`.
///
/// Blocks the G only. Not callable from interrupts.
///
/// # Panics
///
/// The caller is not a G with a P, or there is no memory for one more timer.
#[doc(alias = "timeSleep")]
pub fn sleep<P: Platform>(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    let when = P::now().after(duration);
    let pinned = Pinned::<P>::new();
    if let Err(OutOfResources) = pinned.processor().timers.reserve() {
        drop(pinned);
        panic!("cannot sleep: no memory for one more timer");
    }
    // Armed when the G is parked: a short timer would otherwise ready a G that still runs.
    park_pinned(pinned, WaitReason::Sleep, |pinned, me| {
        let processor = pinned.processor();
        if processor.timers.add(when, me) {
            if P::TIMER_INTERRUPTS {
                P::arm_timer(pinned, processor, when);
            } else {
                pinned.machine().scheduler().tell_timekeeper(when);
            }
        }
        true
    });
}
