use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use crate::library::cancel::ContextError;
use crate::native::{Context, THREADS, go, now, sleep, yield_now};

#[test]
fn dropped_children_are_removed_from_their_parent() {
    THREADS.run(1, || {
        let (parent, _cancel) = Context::background().with_cancel();
        let children = || parent.node().unwrap().children();
        let many: Vec<_> = (0..10).map(|_| parent.with_cancel()).collect();
        assert_eq!(children(), 10);
        many[3].1.cancel();
        drop(many);
        assert_eq!(children(), 0);
        // A context derived by `with_value` shares the node of its parent.
        let (child, child_cancel) = parent.with_value(1).with_timeout(Duration::from_secs(60));
        let clone = child.with_value(2);
        drop((child, child_cancel));
        assert_eq!(children(), 1);
        drop(clone);
        assert_eq!(children(), 0);
    });
}

#[test]
fn long_chain_is_cancelled_and_dropped_without_recursion() {
    THREADS.run(1, || {
        let (first, cancel) = Context::background().with_cancel();
        let mut last = first;
        for _ in 0..100_000 {
            let (next, handle) = last.with_cancel();
            handle.keep();
            last = next;
        }
        assert!(!last.is_done());
        cancel.cancel();
        assert_eq!(last.err(), Some(ContextError::Canceled));
    });
}

#[test]
fn first_of_cancellation_and_deadline_sets_the_cause() {
    THREADS.run(1, || {
        let (early, cancel_early) = Context::background().with_timeout(Duration::from_secs(60));
        cancel_early.cancel_with("no longer wanted");
        let cause = early.cause().unwrap();
        assert_eq!((cause.error(), cause.to_string()), (ContextError::Canceled, "no longer wanted".to_string()));

        let deadline = now() + Duration::from_millis(1);
        let (late, cancel_late) = Context::background().with_deadline_cause(deadline, "too slow");
        let (below, _cancel) = late.with_timeout(Duration::from_secs(60));
        assert_eq!(below.deadline(), Some(deadline));
        sleep(Duration::from_millis(2));
        cancel_late.cancel_with("comes too late");
        for context in [&late, &below] {
            let cause = context.cause().unwrap();
            assert_eq!((cause.error(), cause.to_string()), (ContextError::DeadlineExceeded, "too slow".to_string()));
        }
        // A context derived from an ended context has ended, too.
        let (born_dead, _cancel) = early.with_cancel();
        assert_eq!(born_dead.cause().unwrap().to_string(), "no longer wanted");
        assert!(early.without_cancel().err().is_none());
    });
}

#[test]
fn ended_context_wakes_all_its_waiters() {
    for processors in [1, 4] {
        THREADS.run(processors, || {
            let (top, cancel) = Context::background().with_cancel();
            let (limited, _cancel) = top.with_timeout(Duration::from_millis(5));
            let waiting: Vec<_> = (0..20u64)
                .map(|n| {
                    let context = if n % 2 == 0 { top.clone() } else { limited.clone() };
                    go(move || context.sleep(Duration::from_secs(3600)))
                })
                .collect();
            let waiter = go({
                let limited = limited.clone();
                move || limited.wait()
            });
            assert_eq!(waiter.join().unwrap(), ContextError::DeadlineExceeded);
            assert!(!top.is_done());
            yield_now();
            cancel.cancel();
            for (n, handle) in waiting.into_iter().enumerate() {
                let expected = if n % 2 == 0 { ContextError::Canceled } else { ContextError::DeadlineExceeded };
                assert_eq!(handle.join().unwrap(), Err(expected));
            }
        });
    }
}
