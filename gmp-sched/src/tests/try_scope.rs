use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::library::limit::ContextError;
use crate::native::{Context, THREADS, try_scope};

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
