//! Models of the spinlocks themselves, which are the lock of a channel and the lock of the crate `spin`. Each lock has
//! one holder at a time, which sees what the previous holder did.
//!
//! In these models, a thread that finds a channel's lock taken tries at most once more. With the loop of the real lock,
//! a model would have infinitely many states. The lock of `spin` runs with its loops, because loom lets the other
//! threads run after each failed attempt.

use alloc::boxed::Box;

use std::panic::{self, AssertUnwindSafe};

use super::checked::Checked;
use super::platform::{Setting, run_as, spawn_as};
use super::{LoomPoints, explore};
use crate::base::modelled_lock::{SpinMutex, with_spinning_locks};
use crate::base::points::Relax;
use crate::library::chan::SpinningLock;

/// A lock that is never freed, and what it guards.
type Guarded = (SpinningLock<LoomPoints>, Checked);

fn guarded() -> &'static Guarded {
    Box::leak(Box::new((SpinningLock::new(), Checked::default())))
}

/// If the caller holds the lock (`has_it`), uses the guarded memory and releases the lock.
fn use_if((lock, memory): &Guarded, has_it: bool) {
    if has_it {
        memory.used();
        lock.unlock();
    }
}

#[test]
fn holder_of_a_lock_sees_what_the_previous_one_did() {
    explore(|| {
        let guarded = guarded();
        guarded.0.lock();
        let other = loom::thread::spawn(move || use_if(guarded, guarded.0.try_lock()));
        use_if(guarded, true);
        other.join().unwrap();
    });
}

/// The holder of a lock releases the lock and attempts to take it again. At the same time another thread attempts to
/// take it. Each of the two threads that gets the lock sees what the previous holder did.
#[test]
fn released_lock_is_taken_by_one_of_two_waiters() {
    explore(|| {
        let setting = Setting::new(2);
        let (holds, takes) = (setting.running_machine(), setting.running_machine());
        let guarded = guarded();
        run_as(holds, |_| {
            guarded.0.lock();
            let other = spawn_as(takes, move |_| use_if(guarded, guarded.0.try_lock_again()));
            guarded.1.used();
            guarded.0.unlock();
            use_if(guarded, guarded.0.try_lock_again());
            other.join().unwrap();
        });
    });
}

/// Returns a lock of the crate `spin` that is never freed. The lock guards a checked value.
fn spin_mutex() -> &'static SpinMutex<Checked, Relax<LoomPoints>> {
    Box::leak(Box::new(SpinMutex::new(Checked::default())))
}

/// Two threads lock the mutex twice each. loom checks that the value has one user at a time, and that each user sees
/// what the previous one did. (With two waiters there would be infinitely many runs, because each failed attempt of one
/// waiter is a new step for the other.)
#[test]
fn holder_of_a_spin_mutex_sees_what_the_previous_one_did() {
    with_spinning_locks(|| {
        explore(|| {
            let mutex = spin_mutex();
            let other = loom::thread::spawn(|| (0..2).for_each(|_| mutex.lock().used()));
            (0..2).for_each(|_| mutex.lock().used());
            other.join().unwrap();
            assert_eq!(mutex.lock().uses(), 4);
        });
    });
}

#[test]
fn spin_mutex_that_is_held_is_not_taken_by_try_lock() {
    with_spinning_locks(|| {
        explore(|| {
            let mutex = spin_mutex();
            let other = loom::thread::spawn(|| mutex.try_lock().map(|guard| guard.used()).is_some());
            mutex.lock().used();
            let uses = 1 + u32::from(other.join().unwrap());
            assert_eq!(mutex.lock().uses(), uses);
        });
    });
}

/// A holder panics, and the guard is dropped while the holder unwinds. The drop releases the lock to the other thread.
#[test]
fn spin_mutex_of_a_holder_that_panics_is_released() {
    with_spinning_locks(|| {
        explore(|| {
            let mutex = spin_mutex();
            let other = loom::thread::spawn(|| {
                let ended = panic::catch_unwind(AssertUnwindSafe(|| {
                    let guard = mutex.lock();
                    guard.used();
                    panic::resume_unwind(Box::new(()));
                }));
                assert!(ended.is_err());
            });
            mutex.lock().used();
            other.join().unwrap();
            assert_eq!(mutex.lock().uses(), 2);
        });
    });
}
