use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::error::JoinError;
use crate::native::{THREADS, scope, sleep};

/// Panics without printing a message.
fn panics() -> ! {
    resume_unwind(Box::new("on purpose"))
}

fn has_panicked(body: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(body)).is_err()
}

#[test]
fn child_panic_is_returned_by_join_or_raised_by_scope() {
    for processors in [1, 4] {
        THREADS.run(processors, || {
            let joined = scope(|scope| scope.go(|| -> () { panics() }).join());
            assert_eq!(joined, Err(JoinError::panicked()));
            let finished = AtomicUsize::new(0);
            for late in [false, true] {
                assert!(has_panicked(|| scope(|scope| {
                    let handle = scope.go(|| -> () { panics() });
                    if late {
                        sleep(Duration::from_millis(1));
                    }
                    drop(handle);
                    scope.go(|| {
                        sleep(Duration::from_millis(2));
                        finished.fetch_add(1, Ordering::Relaxed);
                    });
                })));
            }
            assert_eq!(finished.load(Ordering::Relaxed), 2);
        });
    }
}

#[test]
fn body_panic_propagates_after_children_have_ended() {
    THREADS.run(2, || {
        let finished = AtomicUsize::new(0);
        assert!(has_panicked(|| scope(|scope| {
            scope.go(|| {
                sleep(Duration::from_millis(2));
                finished.fetch_add(1, Ordering::Relaxed);
            });
            panics();
        })));
        assert_eq!(finished.load(Ordering::Relaxed), 1);
    });
}
