//! Models of a scheduler that shuts down while an M is made.

use super::platform::{Model, Setting, is_parked, is_unparked, run_as, run_next, spawn_as};
use super::{explore, explore_with_both_locks};
use crate::platform::{Parking, Platform};

/// An M that is made during the shut-down must be unparked. Otherwise its thread would stay parked in a scheduler
/// that has ended.
#[test]
fn m_that_is_made_during_shut_down_is_unparked() {
    explore_with_both_locks(|| {
        explore(|| {
            let setting = Setting::new(1);
            let scheduler = setting.scheduler;
            let ends = loom::thread::spawn(move || scheduler.end_machines());
            setting.add_machine();
            ends.join().unwrap();
            assert!(scheduler.machines().count() == 2 && scheduler.machines().all(is_unparked), "an M stays parked");
        });
    });
}

/// `add_machine` makes a new thread for an M that has ended, while the scheduler shuts down. `end_machines` unparks
/// every M, including this one. But if the new thread wakes before the M is marked as in use, the thread parks again.
/// In this case `add_machine` must unpark the M.
#[test]
fn m_that_is_reused_during_shut_down_is_unparked() {
    explore_with_both_locks(|| {
        explore(|| {
            let setting = Setting::new(1);
            setting.add_machine();
            let (scheduler, machine) = (setting.scheduler, setting.idle_machine());
            setting.end_idle_machines();
            run_as(machine, |pinned| run_next(pinned, machine));
            assert!(machine.is_retired());
            setting.keep_idle_machines();
            scheduler.reuse_machine(machine);
            // The new thread runs this loop, as in `native`. The thread may reach the loop before the M is in use.
            let runs = spawn_as(machine, move |pinned| {
                while machine.is_retired() {
                    Model::park_thread(Parking::new(pinned), None);
                }
                run_next(pinned, machine);
            });
            let ends = loom::thread::spawn(move || scheduler.end_machines());
            setting.add_machine();
            ends.join().unwrap();
            runs.join().unwrap();
            assert!(!machine.is_retired(), "another M was made");
            assert!(!is_parked(machine), "the M stays parked");
        });
    });
}
