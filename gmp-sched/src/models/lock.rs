//! The lock of a channel itself: one holder at a time, which sees what the previous one did.
//!
//! A thread that finds it locked tries once more, where the lock itself would keep trying: a loop would have infinitely many
//! states.

use alloc::boxed::Box;

use super::checked::Checked;
use super::platform::{Setting, run_as, spawn_as};
use super::{Unwatched, explore};
use crate::library::chan::SpinningLock;

/// A lock that is never freed, and what it guards.
type Guarded = (SpinningLock<Unwatched>, Checked);

fn guarded() -> &'static Guarded {
    Box::leak(Box::new((SpinningLock::new(), Checked::default())))
}

/// Uses what the lock guards if the caller `has_it`.
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

/// Two threads attempt to take the lock while its holder releases it.
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
