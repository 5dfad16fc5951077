use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::library::limit::ContextError;
use crate::native::{Context, THREADS, go, goexit, try_scope};

/// Calls [`try_scope`] with a child that waits for the end of the context, and with `body`, which panics or exits.
fn assert_child_is_cancelled(body: impl FnOnce() + Send + 'static) {
    THREADS.run(2, || {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let seen = is_cancelled.clone();
        let ended = go(move || {
            let _result: Result<(), ()> = try_scope(&Context::background(), |scope| {
                scope.go(|| {
                    seen.store(scope.context().wait() == ContextError::Canceled, Ordering::Relaxed);
                    Ok(())
                });
                body();
                Ok(())
            });
        });
        assert!(ended.join().is_err());
        assert!(is_cancelled.load(Ordering::Relaxed));
    });
}

#[test]
fn body_that_panics_or_exits_cancels_its_children() {
    assert_child_is_cancelled(|| resume_unwind(Box::new("no message")));
    assert_child_is_cancelled(|| goexit());
}

#[test]
fn child_panic_cancels_siblings() {
    THREADS.run(2, || {
        let cancelled = AtomicUsize::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let result: Result<(), ()> = try_scope(&Context::background(), |scope| {
                scope.go(|| {
                    assert_eq!(scope.context().wait(), ContextError::Canceled);
                    cancelled.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                });
                scope.go(|| resume_unwind(Box::new("no message")));
                Ok(())
            });
            result.unwrap();
        }));
        assert!(caught.is_err());
        assert_eq!(cancelled.load(Ordering::Relaxed), 1);
    });
}
