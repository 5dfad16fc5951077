use alloc::vec::Vec;
use core::time::Duration;

use crate::library::cancel::ContextError;
use crate::native::{Context, THREADS};

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
