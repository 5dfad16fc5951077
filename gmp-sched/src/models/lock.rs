//! The lock of a channel itself: one holder at a time, who sees what the one before did; also where a commit frees it on the
//! far side.
//!
//! What finds it taken makes one attempt more, where the lock itself goes on trying: turns of a loop would be states without
//! end.

use alloc::boxed::Box;

use super::checked::Checked;
use super::platform::{Model, Setting, run_as, spawn_as};
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
fn a_lock_that_was_free_is_taken_with_all_that_was_done_under_it() {
    explore(|| {
        let guarded = guarded();
        guarded.0.lock();
        let other = loom::thread::spawn(move || use_if(guarded, guarded.0.try_lock()));
        use_if(guarded, true);
        other.join().unwrap();
    });
}

/// A G parks with the lock, which its commit frees, and two others have waited for that.
#[test]
fn a_lock_that_the_far_side_frees_is_taken_by_one_of_two_that_wait() {
    explore(|| {
        let setting = Setting::new(2);
        let (parks, takes) = (setting.running_machine(), setting.running_machine());
        let guarded = guarded();
        run_as(parks, |pinned| {
            guarded.0.lock();
            let other = spawn_as(takes, move |_| use_if(guarded, guarded.0.try_lock_again()));
            guarded.1.used();
            #[expect(unsafe_code, reason = "frees the lock by a commit")]
            // SAFETY: the lock is never freed.
            let commit = unsafe { guarded.0.unlock_commit::<Model>() };
            commit.run(pinned, pinned.goroutine());
            use_if(guarded, guarded.0.try_lock_again());
            other.join().unwrap();
        });
    });
}
