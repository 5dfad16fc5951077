//! Models in which a G is woken from outside of its scheduler, by an M of another scheduler or by a thread that is not
//! an M.

use alloc::sync::Arc;

use super::platform::{Model, Setting, run_as, run_locked, run_next, run_outside, spawn_as};
use super::{explore, explore_every_point, explore_with_both_locks};
use crate::base::atomic::{AtomicBool, Ordering};
use crate::base::instant::Instant;
use crate::engine::ready::ready_pinned;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::status::Status;
use crate::platform::Pinned;
use crate::refinements::lock_os_thread::lock_thread;

/// Makes a G that waits for a future. While it waits, the deadlock check reports nothing, because a thread that is not
/// an M of its scheduler may wake it.
fn waiter(setting: &Setting) -> &'static Goroutine<Model> {
    let goroutine = setting.goroutine();
    let [first, ..] = setting.scheduler.processors() else { unreachable!("a scheduler has a P") };
    goroutine.set_waiting(WaitReason::Future, first.sampler.unsampled(), Instant::from_nanos(0));
    goroutine
}

fn assert_runs_under_its_scheduler(goroutine: &'static Goroutine<Model>) {
    assert_eq!(goroutine.status(), Status::Running, "lost wakeup");
    let runs =
        |machine: &'static Machine<Model>| machine.current_goroutine().is_some_and(|g| core::ptr::eq(g, goroutine));
    assert!(goroutine.scheduler().machines().any(runs), "a G runs under another scheduler");
}

/// An M of another scheduler readies a G while the M with the only P of the G's scheduler goes idle. That M must run
/// the G, or be woken for it.
#[test]
fn wake_from_another_scheduler_against_going_idle() {
    explore_with_both_locks(|| {
        explore_every_point(|| {
            let (setting, other) = (Setting::new(1), Setting::new(1));
            let (idler, waker, goroutine) = (setting.busy_machine(), other.running_machine(), waiter(&setting));
            let idles = spawn_as(idler, move |pinned| idler.go_idle(pinned));
            run_as(waker, |pinned| ready_pinned(pinned, goroutine));
            idles.join().unwrap();
            setting.settle_all([idler]);
            setting.check();
            assert_runs_under_its_scheduler(goroutine);
            assert!(waker.held_processor().queue.is_empty(), "a G is on a queue of another scheduler");
        });
    });
}

/// A G that is readied from outside may be the last G of its scheduler. The scheduler may then end and be reused. So
/// once an M of the scheduler can run the G, the waker must not change the scheduler any more.
#[test]
fn waker_from_outside_changes_nothing_once_the_g_can_run() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        let (runner, goroutine) = (setting.busy_machine(), waiter(&setting));
        let scheduler = setting.scheduler;
        let state = move || {
            let shared = scheduler.shared.lock();
            (scheduler.spinning.load(Ordering::Relaxed), shared.idle_processors.len(), shared.idle_machines.len())
        };
        let runs = spawn_as(runner, move |pinned| {
            run_next(pinned, runner);
            let then = state();
            assert_eq!(state(), then, "the waker changes a scheduler that may have ended");
        });
        ready_pinned(&Pinned::<Model>::new(), goroutine);
        runs.join().unwrap();
        setting.settle();
        setting.check();
        assert_runs_under_its_scheduler(goroutine);
    });
}

/// A thread that is not an M readies the last G of a run. Before this thread has returned, the run ends and the
/// scheduler begins the next run. The next run must find the scheduler in the same state as a new one.
#[test]
fn late_waker_changes_nothing_of_the_next_run() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        let (scheduler, machine, last) = (setting.scheduler, setting.busy_machine(), waiter(&setting));
        let is_next_run = Arc::new(AtomicBool::new(false));
        let runs = {
            let is_next_run = is_next_run.clone();
            spawn_as(machine, move |pinned| {
                run_next(pinned, machine);
                last.set_status(Status::Dead);
                scheduler.end_machines();
                // This loom thread also acts as the caller that begins the next run.
                scheduler.renew(1);
                scheduler.add_machine().expect("the model has threads enough");
                is_next_run.store(true, Ordering::Relaxed);
            })
        };
        ready_pinned(&Pinned::<Model>::new(), last);
        runs.join().unwrap();
        if is_next_run.load(Ordering::Relaxed) {
            assert!(!machine.is_retired() && machine.assigned_processor.load(Ordering::Relaxed).is_none());
            assert_eq!(scheduler.idle_processors.load(Ordering::Relaxed), 1, "the next run begins with a busy P");
        } else {
            // The M had parked before the G was runnable. The M continues now and runs the G.
            setting.settle();
            assert_runs_under_its_scheduler(last);
        }
        setting.check();
    });
}

/// The Ms of two schedulers each ready a G of the other scheduler and then go idle. Each G must be run under its own
/// scheduler.
#[test]
fn two_schedulers_ready_each_others_gs() {
    explore_with_both_locks(|| {
        explore(|| {
            let settings = [Setting::new(1), Setting::new(1)];
            let wakers = [settings[0].running_machine(), settings[1].running_machine()];
            let waiters = [waiter(&settings[0]), waiter(&settings[1])];
            let [first, second] = wakers;
            let [of_first, of_second] = waiters;
            let readies = spawn_as(first, move |pinned| {
                ready_pinned(pinned, of_second);
                first.set_current(None);
                first.go_idle(pinned);
            });
            run_as(second, |pinned| {
                ready_pinned(pinned, of_first);
                second.set_current(None);
                second.go_idle(pinned);
            });
            readies.join().unwrap();
            for (setting, (waker, waiter)) in settings.iter().zip(wakers.into_iter().zip(waiters)) {
                setting.settle_all([waker]);
                setting.check();
                assert_runs_under_its_scheduler(waiter);
            }
        });
    });
}

/// A thread that is not an M readies a locked G. Meanwhile the G's own M releases its P and begins to wait for a P.
/// That M must be assigned the P and run the G.
#[test]
fn locked_g_is_readied_from_outside() {
    explore_with_both_locks(|| {
        explore(|| {
            let setting = Setting::new(1);
            let machine = setting.running_machine();
            run_as(machine, |_| core::mem::forget(lock_thread::<Model>()));
            let goroutine = machine.running_goroutine();
            goroutine.set_waiting(WaitReason::Future, machine.unsampled(), Instant::from_nanos(0));
            goroutine.note_locked_wait();
            machine.set_current(None);
            let waits = spawn_as(machine, move |pinned| run_locked(pinned, machine, goroutine));
            run_outside(|| ready_pinned(&Pinned::<Model>::new(), goroutine));
            waits.join().unwrap();
            setting.settle();
            assert_runs_under_its_scheduler(goroutine);
        });
    });
}
