//! Models of system calls. The P of an M in a system call is taken by only one M: by the same M at its return, or by
//! another. An M that gets no P when its call returns leaves its G in a queue, where other Ms find the G.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::checked::Checked;
use super::explore_every_point;
use super::platform::{Model, Setting, run_as, run_next, spawn_as};
use crate::base::atomic::Ordering;
use crate::engine::pick::find_runnable;
use crate::engine::ready::ready_pinned;
use crate::engine::syscall::{enter_blocking, enter_syscall};
use crate::engine::syscall_return::{processor_to_displace, requeue, requeue_without_processor, take_processor_back};
use crate::entities::machine::Machine;

/// Enters a system call as the G that runs on `machine`.
fn enter(machine: &'static Machine<Model>) {
    run_as(machine, |_| core::mem::forget(enter_syscall::<Model>()));
}

/// Two threads retake the P of an M whose system call returns at this moment, as sysmon does. The M gets a P, or
/// enqueues its G for other Ms.
#[test]
fn retake_against_the_return_from_a_system_call() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        setting.add_machine();
        let caller = setting.running_machine();
        let processor = caller.held_processor();
        // Memory that only the holder of the P accesses, so that loom detects if two Ms hold the P.
        let licence = Arc::new(Checked::default());
        let scheduler = setting.scheduler;
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let licence = licence.clone();
                loom::thread::spawn(move || {
                    if !scheduler.retake(processor) {
                        return;
                    }
                    // The P is now held by another M, or idle. If the P is idle, this thread takes it, as an M with
                    // work for the P would.
                    let mut shared = scheduler.shared.lock();
                    if let Some(taken) = scheduler.take_idle_processor(&mut shared) {
                        drop(shared);
                        licence.used();
                        scheduler.hand_off(taken);
                    }
                })
            })
            .collect();
        licence.used();
        enter(caller);
        run_as(caller, |pinned| {
            let me = pinned.goroutine();
            if take_processor_back(pinned, caller, me).is_some() {
                licence.used();
            } else {
                requeue_without_processor(pinned, me);
                caller.set_current(None);
                find_runnable(pinned, caller);
            }
        });
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        setting.check();
    });
}

/// sysmon retakes the P of an M in a system call, because the P has work, and assigns the P to another M. The second M
/// sees what the first one did.
#[test]
fn next_holder_of_a_retaken_p_sees_what_the_caller_did() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        setting.add_machine();
        let caller = setting.running_machine();
        let processor = caller.held_processor();
        let work = setting.goroutine();
        run_as(caller, |pinned| ready_pinned(pinned, work));
        let licence = Arc::new(Checked::default());
        let (scheduler, next) = (setting.scheduler, licence.clone());
        let watch = loom::thread::spawn(move || {
            let taken = scheduler.retake(processor);
            let machine =
                scheduler.machines().find(|machine| machine.assigned_processor.load(Ordering::Relaxed).is_some());
            if let Some(machine) = machine.filter(|_| taken) {
                assert!(machine.take_assigned());
                next.used();
            }
        });
        licence.used();
        enter(caller);
        watch.join().unwrap();
        setting.check();
    });
}

/// A P is handed off while another M submits work and sees no idle P. So the M that hands off the P has to check for
/// that work.
#[test]
fn handoff_against_a_submitter() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.add_machine();
        let (blocking, submitter) = (setting.running_machine(), setting.busy_machine());
        let work = setting.goroutine();
        let blocks = spawn_as(blocking, |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        run_as(submitter, |pinned| ready_pinned(pinned, work));
        blocks.join().unwrap();
        setting.check();
    });
}

/// Two Ms block at the same time, and each of them relies on the same idle M to take over its P. In the end, there
/// is nevertheless an M for every P.
#[test]
fn every_p_has_an_m_when_two_block() {
    explore_every_point(|| {
        let setting = Setting::new(2);
        setting.add_machine();
        let callers = [setting.running_machine(), setting.running_machine()];
        let work = setting.goroutine();
        run_as(callers[0], |pinned| ready_pinned(pinned, work));
        let blocks = spawn_as(callers[0], |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        run_as(callers[1], |_| core::mem::forget(enter_blocking::<Model>().unwrap()));
        blocks.join().unwrap();
        setting.check();
        assert_eq!(setting.scheduler.machines().count(), 4);
    });
}

/// The last M to go idle must not report a deadlock, because a G returns from a system call at the same time.
#[test]
fn return_from_a_system_call_against_the_deadlock_check() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        let returning = setting.blocked_machine();
        let idler = setting.busy_machine();
        // This G waits for the G in the system call.
        setting.goroutine();
        let idles = spawn_as(idler, move |pinned| idler.go_idle(pinned));
        run_as(returning, |pinned| {
            let me = pinned.goroutine();
            if take_processor_back(pinned, returning, me).is_none() {
                requeue_without_processor(pinned, me);
                returning.set_current(None);
                find_runnable(pinned, returning);
            }
        });
        idles.join().unwrap();
        setting.settle_all([idler]);
        setting.check();
    });
}

/// A G that returns from a blocking call is put into the urgent queue of a P while the M of this P goes idle. One of the
/// two Ms takes the P and runs the G, and neither reports a deadlock.
#[test]
fn return_from_a_blocking_call_against_an_idling_m() {
    explore_every_point(|| {
        let setting = Setting::new(1);
        let returning = setting.blocked_machine();
        let idler = setting.busy_machine();
        // This G waits for the G in the system call, so that the last M to go idle could report a deadlock.
        setting.goroutine();
        let idles = spawn_as(idler, move |pinned| run_next(pinned, idler));
        run_as(returning, |pinned| {
            let me = pinned.goroutine();
            returning.set_current(None);
            requeue(pinned, me, |machine| processor_to_displace(machine, me));
            run_next(pinned, returning);
        });
        idles.join().unwrap();
        setting.check();
        let runs = [returning, idler].into_iter().filter(|machine| machine.current_goroutine().is_some());
        assert_eq!(runs.count(), 1, "the G runs on no M, or on two");
    });
}
