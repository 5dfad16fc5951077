//! Models of callers that may not wait: in a system call, on a thread that is no M, or with preemption off. (The G that
//! has stopped the world has preemption off on platforms that count pins, as the platform of the models does.) An
//! operation that would have to wait panics. It then has changed nothing, and the waits of other Gs end as they would
//! without it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::checked::Checked;
use super::platform::{Model, Setting, run_as, run_outside, run_pinned, spawn_as};
use super::{explore, explore_every_point};
use crate::base::instant::Instant;
use crate::engine::syscall::enter_syscall;
use crate::entities::goroutine::WaitReason;
use crate::entities::loom_wait;
use crate::entities::status::Status;
use crate::library::device_signals::{Found, Signal};
use crate::library::sync::{Condvar, Mutex, RawMutex, Semaphore};

/// Why a caller may not wait.
#[derive(Clone, Copy, Debug)]
enum Caller {
    InSystemCall,
    OnPlainThread,
    WithPreemptionOff,
}

const CALLERS: [Caller; 3] = [Caller::InSystemCall, Caller::OnPlainThread, Caller::WithPreemptionOff];

impl Caller {
    /// Calls `body` on the calling loom thread.
    fn call(self, setting: &Setting, body: impl FnOnce()) {
        match self {
            Self::InSystemCall => {
                run_as(setting.running_machine(), |_| {
                    // The call does not end in the model.
                    core::mem::forget(enter_syscall::<Model>());
                    body();
                });
            }
            Self::OnPlainThread => run_outside(body),
            Self::WithPreemptionOff => {
                run_as(setting.running_machine(), |_| run_pinned(body));
            }
        }
    }
}

/// Whether `operation` panics because its caller may not wait, or because another G waits for the same signal.
fn is_refused(operation: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(operation)) else { return false };
    let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref().copied());
    let reasons =
        ["it is in a system call", "only a G may do this", "with preemption turned off", "two Gs wait for one signal"];
    if text.is_some_and(|text| reasons.iter().any(|reason| text.contains(reason))) {
        return true;
    }
    resume_unwind(payload)
}

/// Runs each of `bodies` as a G on a separate M, and `refused` as a caller that may not wait.
fn run_beside<T: Send + Sync + 'static>(caller: Caller, shared: T, bodies: &[fn(&T)], refused: fn(&T)) -> Arc<T> {
    loom_wait::reset();
    let setting = Setting::new(bodies.len() + 1);
    let shared = Arc::new(shared);
    let others: Vec<_> = bodies
        .iter()
        .map(|&body| {
            let shared = shared.clone();
            spawn_as(setting.running_machine(), move |_| body(&shared))
        })
        .collect();
    caller.call(&setting, || refused(&shared));
    others.into_iter().for_each(|other| other.join().unwrap());
    shared
}

#[test]
fn refused_lock_of_a_mutex_changes_nothing() {
    fn lock_and_use((mutex, value): &(RawMutex<Model>, Checked)) {
        mutex.acquire(WaitReason::MutexLock, None);
        value.used();
        mutex.release();
    }
    for caller in CALLERS {
        explore(move || {
            let shared = (RawMutex::new(), Checked::default());
            let shared = run_beside(caller, shared, &[lock_and_use, lock_and_use], |(mutex, value)| {
                if !is_refused(|| _ = mutex.acquire(WaitReason::MutexLock, None)) {
                    value.used();
                    mutex.release();
                }
            });
            assert!(shared.1.uses() >= 2 && shared.0.try_acquire());
        });
    }
}

#[test]
fn refused_acquisition_of_a_permit_changes_nothing() {
    fn take_and_use((semaphore, value): &(Semaphore<Model>, Checked)) {
        let _permit = semaphore.acquire(1);
        value.used();
    }
    for caller in CALLERS {
        explore(move || {
            let shared = (Semaphore::new(1), Checked::default());
            let shared = run_beside(caller, shared, &[take_and_use, take_and_use], |shared| {
                is_refused(|| take_and_use(shared));
            });
            assert!(shared.1.uses() >= 2 && shared.0.try_acquire(1).is_some());
        });
    }
}

#[test]
fn refused_wait_for_a_notification_keeps_the_mutex_until_its_guard_is_dropped() {
    type Shared = (Mutex<bool, Model>, Condvar<Model>);
    fn wait((mutex, condvar): &Shared) {
        condvar.wait_while(&mut mutex.lock(), |is_set| !*is_set);
    }
    fn notify((mutex, condvar): &Shared) {
        *mutex.lock() = true;
        condvar.notify_one();
    }
    for caller in CALLERS {
        explore(move || {
            let shared = (Mutex::from_raw(RawMutex::new(), false), Condvar::new());
            let shared = run_beside(caller, shared, &[wait, notify], |(mutex, condvar)| {
                if let Some(mut guard) = mutex.try_lock() {
                    assert!(is_refused(|| condvar.wait(&mut guard)), "the caller waits");
                    assert!(mutex.try_lock().is_none(), "the mutex is unlocked before the drop of its guard");
                }
            });
            assert!(shared.0.try_lock().is_some_and(|is_set| *is_set) && !shared.1.notify_one());
        });
    }
}

/// No G waits. A refused wait leaves the signal to the next wait, which finds the raise.
#[test]
fn refused_wait_for_a_signal_leaves_the_signal_free() {
    for caller in CALLERS {
        explore_every_point(move || {
            let setting = Setting::new(2);
            let signal: &'static Signal<Model> = Box::leak(Box::new(Signal::new()));
            let handler = loom::thread::spawn(move || signal.raise());
            let next = setting.running_machine();
            let mut is_taken = false;
            caller.call(&setting, || is_taken = !is_refused(|| signal.wait()));
            let found = run_as(next, |pinned| signal.check(pinned)).expect("a check does not park");
            handler.join().unwrap();
            let later = run_as(next, |pinned| signal.check(pinned)).expect("a check does not park");
            let raises = [found, later].map(|found| match found {
                Found::Raised => 1,
                Found::Nothing => 0,
                Found::OnItsWay | Found::Taken => panic!("the refused wait has taken the signal"),
            });
            assert_eq!(raises[0] + raises[1] + u32::from(is_taken), 1, "one raise ends one wait");
        });
    }
}

/// A G waits. A refused wait of another caller does not take the raise from that G.
#[test]
fn refused_wait_for_a_signal_leaves_the_raise_to_the_g_that_waits() {
    for caller in CALLERS {
        explore_every_point(move || {
            let setting = Setting::new(2);
            let signal: &'static Signal<Model> = Box::leak(Box::new(Signal::new()));
            let scheduler = setting.scheduler;
            let here = setting.running_machine();
            let waiter = here.running_goroutine();
            run_as(here, |pinned| {
                let generation = signal.announce(scheduler, waiter).expect("the signal is free");
                waiter.set_waiting(WaitReason::IoWait, here.unsampled(), Instant::from_nanos(0));
                here.set_current(None);
                assert!(signal.commit(pinned, waiter, generation, Instant::NEVER), "the G parks");
            });
            let handler = loom::thread::spawn(move || signal.raise());
            caller.call(&setting, || {
                assert!(is_refused(|| signal.wait()), "the raise is taken from the G that waits");
            });
            handler.join().unwrap();
            run_as(here, |pinned| scheduler.poll(pinned));
            assert_eq!(waiter.status(), Status::Runnable, "the G that waits is not readied");
            assert_eq!(signal.end(scheduler, waiter, Instant::NEVER), Some(true));
        });
    }
}
