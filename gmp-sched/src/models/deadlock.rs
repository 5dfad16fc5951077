//! A model in which the deadlock check runs while a thread that is not an M is about to wake a G.

use super::platform::{Setting, spawn_as};
use super::{explore_every_point, explore_with_both_locks};
use crate::base::instant::Instant;
use crate::engine::ready::ready_pinned;
use crate::entities::goroutine::WaitReason;
use crate::entities::status::ParkedStatus;
use crate::platform::Pinned;

/// One G waits for a future, and another G is parked. The check never reports a deadlock, because a thread outside of
/// the scheduler wakes the first G.
#[test]
fn deadlock_is_not_reported_during_a_wake_from_outside() {
    explore_with_both_locks(|| {
        explore_every_point(|| {
            let setting = Setting::new(1);
            let idler = setting.busy_machine();
            setting.goroutine();
            let woken = setting.goroutine();
            woken.set_waiting(
                WaitReason::Future,
                ParkedStatus::unsampled(setting.scheduler.number()),
                Instant::from_nanos(0),
            );
            let idles = spawn_as(idler, move |pinned| idler.go_idle(pinned));
            ready_pinned(&Pinned::new(), woken);
            idles.join().unwrap();
            setting.settle_all([idler]);
            setting.check();
        });
    });
}
