//! Models of Gs that are locked to their Ms. Such a G runs only on its own M, even if another M takes the G from the
//! list of runnable locked Gs.

use super::platform::{Model, Setting, run_as, run_locked, spawn_as};
use super::{explore, explore_with_both_locks};
use crate::base::atomic::Ordering;
use crate::engine::enqueue::requeue_global;
use crate::engine::syscall::enter_blocking;
use crate::engine::syscall_return::requeue_without_processor;
use crate::engine::take_global::take_global_batch;
use crate::entities::machine::Machine;
use crate::entities::status::Status;
use crate::platform::Pinned;
use crate::refinements::lock_os_thread::lock_thread;

/// Locks the G that runs on `machine`.
fn lock(machine: &'static Machine<Model>) {
    run_as(machine, |_| core::mem::forget(lock_thread::<Model>()));
}

/// `machine` takes the locked G from the list of locked Gs, hands its P to the M of this G, and waits for another P. If
/// the list is empty, `machine` goes idle.
fn find(pinned: &Pinned<Model>, machine: &'static Machine<Model>) {
    match take_global_batch(machine.scheduler(), machine.held_processor()) {
        Some(locked) => {
            machine.start_locked(locked);
            machine.wait_for_processor(pinned);
        }
        None => machine.go_idle(pinned),
    }
}

/// Checks at the end of a model that the locked G runs on `machine`, its own M, and on no other.
fn check(setting: &Setting, machine: &'static Machine<Model>, finder: &'static Machine<Model>) {
    setting.settle_all([finder]);
    assert_eq!(machine.current_goroutine().map(|goroutine| goroutine.status()), Some(Status::Running), "lost wakeup");
    assert!(machine.processor().is_some(), "a G runs without a P");
    assert!(finder.current_goroutine().is_none(), "a locked G runs on another M");
    assert!(machine.assigned_processor.load(Ordering::Relaxed).is_none(), "an M that has a P is assigned another");
    let held = setting.scheduler.machines().filter(|machine| machine.processor().is_some()).count();
    let shared = setting.scheduler.shared.lock();
    assert_eq!(shared.idle_machines.len() + held, shared.machines as usize, "an M without a P is not on the idle list");
    assert_eq!(shared.idle_locked, 0, "an M that runs its locked G counts as idle");
    assert!(shared.locked.is_empty(), "a G that runs is on the list of runnable ones");
}

/// A locked G yields. Another M may find the G while the G's own M hands off its P and begins to wait for a P.
#[test]
fn locked_g_that_yields_is_found_by_another_m() {
    explore_with_both_locks(|| {
        explore(|| {
            let setting = Setting::new(2);
            let (machine, finder) = (setting.running_machine(), setting.busy_machine());
            lock(machine);
            let finds = spawn_as(finder, move |pinned| find(pinned, finder));
            run_as(machine, |pinned| {
                let me = machine.running_goroutine();
                machine.set_current(None);
                requeue_global(pinned, me);
                run_locked(pinned, machine, me);
            });
            finds.join().unwrap();
            check(&setting, machine, finder);
        });
    });
}

/// A locked G returns from a system call after another M has taken its P. This other M finds the G while the G's own M
/// begins to wait for a P.
#[test]
fn locked_g_that_returns_from_a_system_call_is_found_by_another_m() {
    explore_with_both_locks(|| {
        explore(|| {
            let setting = Setting::new(1);
            let machine = setting.running_machine();
            lock(machine);
            run_as(machine, |_| core::mem::forget(enter_blocking::<Model>().expect("the model has threads enough")));
            let finder = setting.busy_machine();
            let finds = spawn_as(finder, move |pinned| find(pinned, finder));
            run_as(machine, |pinned| {
                let me = machine.running_goroutine();
                machine.set_current(None);
                requeue_without_processor(pinned, me);
                run_locked(pinned, machine, me);
            });
            finds.join().unwrap();
            check(&setting, machine, finder);
        });
    });
}
