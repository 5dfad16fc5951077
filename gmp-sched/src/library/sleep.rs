//! Sleeping until a point in time.

use core::time::Duration;

use crate::base::instant::Instant;
use crate::engine::hooks::before_wait;
use crate::engine::park::park_with;
use crate::engine::timers::arm;
use crate::entities::bubble::BubbleRef;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{WaitGeneration, WaitReason};
use crate::entities::timers::Action;
use crate::platform::Platform;

/// Returns the current time. If the calling G is in a bubble, this is the time of the bubble's clock, otherwise that of
/// the platform's clock.
#[inline]
pub(crate) fn now<Plat: Platform>() -> Instant {
    BubbleRef::<Plat>::current().now()
}

/// Parks the calling G for `duration`; returns at once if that is zero. Go: `time.Sleep`.
///
/// Blocks the G only. Not callable from interrupts.
///
/// # Panics
///
/// `duration` is not zero, and the caller is pinned or is not a G with a P.
#[doc(alias = "timeSleep")]
#[track_caller]
pub fn sleep<Plat: Platform>(duration: Duration) {
    before_wait::<Plat>();
    if !duration.is_zero() {
        let caller = CurrentGoroutine::<Plat>::new();
        let when = BubbleRef::of(caller.me).now() + duration;
        park_until(caller, when);
    }
}

/// Parks the calling G until `when`. Blocks the G only. Not callable from interrupts.
///
/// # Panics
///
/// The caller is pinned or is not a G with a P.
#[track_caller]
pub fn sleep_until<Plat: Platform>(when: Instant) {
    park_until(CurrentGoroutine::<Plat>::new(), when);
}

/// Parks the calling G until `when`. The timer may fire at once, so it is armed in the commit, when the G has left its
/// stack. Go: `resetForSleep`.
#[cfg_attr(feature = "std", track_caller)]
fn park_until<Plat: Platform>(caller: CurrentGoroutine<Plat>, when: Instant) {
    drop(park_with(caller, WaitReason::Sleep, |pinned, me| {
        arm(pinned, me, when, &me.timer, Action::Wake(me, WaitGeneration::SOLE));
        true
    }));
}
