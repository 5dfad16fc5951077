//! Sleeping until a point in time.

use core::time::Duration;

use crate::goroutine::{Ticket, WaitReason};
use crate::park::park_pinned;
use crate::platform::{Pinned, Platform};
use crate::time::{Instant, now};
use crate::timers::{Action, arm};

/// Lets the calling G sleep for `duration`; returns at once if that is zero. Go: `time.Sleep`.
///
/// Blocks the G only. Not callable from interrupts.
///
/// # Panics
///
/// The caller is not a G with a P.
#[doc(alias = "timeSleep")]
pub fn sleep<P: Platform>(duration: Duration) {
    if !duration.is_zero() {
        sleep_until::<P>(now::<P>().after(duration));
    }
}

/// Lets the calling G sleep until `when`. As [`sleep`].
///
/// # Panics
///
/// As [`sleep`].
pub fn sleep_until<P: Platform>(when: Instant) {
    let pinned = Pinned::<P>::new();
    // Armed when the G is parked: a short timer would otherwise ready a G that still runs.
    park_pinned(pinned, WaitReason::Sleep, |pinned, me| {
        arm(pinned, me, when, &me.timer, Action::Wake(me, Ticket::SOLE));
        true
    });
}
