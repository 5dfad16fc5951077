//! Models of two Gs that begin to wait for the same signal, which only one of them may do.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::explore_every_point;
use super::platform::{Model, Setting, run_as, spawn_as};
use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::instant::Instant;
use crate::entities::goroutine::WaitReason;
use crate::entities::status::{ParkedStatus, Status};
use crate::library::device_signals::{Found, Signal};
use crate::platform::Pinned;

/// Two Gs begin to wait for one signal. One of them becomes the signal's waiter, and the raise wakes that G.
#[test]
fn second_waiter_does_not_disturb_the_first() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let machines = [setting.running_machine(), setting.running_machine()];
        let signal: &'static Signal<Model> = Box::leak(Box::new(Signal::new()));
        let scheduler = setting.scheduler;
        let wait = move |pinned: &Pinned<Model>| {
            let me = pinned.goroutine();
            if signal.check(pinned) != Found::Nothing {
                return;
            }
            let Some(generation) = signal.announce(scheduler, me) else { return };
            me.set_waiting(
                WaitReason::IoWait,
                ParkedStatus::unsampled(me.scheduler().number()),
                Instant::from_nanos(0),
            );
            assert!(signal.commit(pinned, me, generation, Instant::NEVER), "it has not been raised");
            pinned.machine().set_current(None);
        };
        let other = spawn_as(machines[1], wait);
        run_as(machines[0], wait);
        other.join().unwrap();
        let waiting = scheduler.goroutines().filter(|goroutine| goroutine.status() == Status::Waiting);
        let [waiting] = waiting.collect::<Vec<_>>()[..] else { panic!("the signal has not exactly one waiter") };
        signal.raise();
        run_as(machines[0], |pinned| {
            scheduler.poll(pinned);
            let ready = pinned.processor().queue.pop(true).map(|(goroutine, _)| goroutine);
            assert!(
                ready.is_some_and(|ready| core::ptr::eq(ready, waiting)),
                "another G is woken than the one that waits"
            );
            // The first G's wait is not over until that G runs, so this second raise belongs to the same wait.
            signal.raise();
            assert_eq!(signal.check(pinned), Found::Taken, "a raise for the first is taken by the second");
            assert_eq!(signal.end(scheduler, waiting, Instant::NEVER), Some(true));
            assert_eq!(signal.check(pinned), Found::Nothing);
        });
    });
}

/// Two Gs begin to wait for a signal that was raised once. One of them takes the raise, and the other has to wait.
#[test]
fn one_raise_is_taken_by_one_of_two_gs() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let machines = [setting.running_machine(), setting.running_machine()];
        let signal: &'static Signal<Model> = Box::leak(Box::new(Signal::new()));
        signal.raise();
        let taken = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let check = |taken: Arc<[AtomicBool; 2]>, which: usize| {
            move |pinned: &Pinned<Model>| match signal.check(pinned) {
                Found::Raised => taken[which].store(true, Ordering::Relaxed),
                found => assert_eq!(found, Found::Nothing),
            }
        };
        let other = spawn_as(machines[1], check(taken.clone(), 1));
        run_as(machines[0], check(taken.clone(), 0));
        other.join().unwrap();
        let [first, second] = [0, 1].map(|which| taken[which].load(Ordering::Relaxed));
        assert!(first != second, "the raise was taken by both Gs, or by none: {first} {second}");
    });
}
