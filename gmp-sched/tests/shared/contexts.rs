//! Cases of Go's tests of the package `context` that the other files do not cover.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use gmp_sched::cancel::ContextError;

use super::platform::{CancelHandle, Context, Receiver, channel, go, now, yield_now};
use super::several::{go_each, join_all, spawn_each};

/// A duration that is longer than any test takes.
const FOREVER: Duration = Duration::from_secs(36_000);
const CANCELED: Option<ContextError> = Some(ContextError::Canceled);
const EXCEEDED: Option<ContextError> = Some(ContextError::DeadlineExceeded);

/// Why the context is done, and the text of the cause. Both must agree with the other observers.
fn end_of(context: &Context) -> (Option<ContextError>, String) {
    let (error, cause) = (context.err(), context.cause());
    assert_eq!((context.is_done(), context.check().err()), (error.is_some(), error));
    assert_eq!(cause.as_ref().map(|cause| cause.error()), error);
    (error, cause.map_or_else(String::new, |cause| cause.to_string()))
}

/// Asserts that the contexts are not done, and that their channels are open.
fn assert_open(contexts: &[&Context]) {
    for context in contexts {
        assert_eq!((end_of(context), context.done().is_closed()), ((None, String::new()), false));
    }
}

/// Asserts that the contexts are cancelled without a cause. The channels `done` were made before.
fn assert_canceled(contexts: &[&Context], done: &[Receiver<core::convert::Infallible>]) {
    for context in contexts {
        assert_eq!((end_of(context), context.wait()), ((CANCELED, "context canceled".into()), ContextError::Canceled));
        assert!(context.done().is_closed());
    }
    assert!(done.iter().all(Receiver::is_closed));
}

fn cancellation_reaches_all_descendants_before_it_returns() {
    let (parent, cancel) = Context::background().with_cancel();
    let (child, cancel_child) = parent.with_cancel();
    let value = parent.with_value("value");
    let (timed, _cancel_timed) = value.with_timeout(FOREVER);
    let all = [&parent, &child, &value, &timed];
    let done: Vec<_> = all.iter().map(|context| context.done()).collect();
    assert_open(&all);
    cancel.cancel();
    assert_canceled(&all, &done);
    // Further cancellations have no effect, and contexts that are derived now are done from the beginning.
    cancel.cancel_with("too late");
    cancel_child.cancel_with("too late");
    assert_canceled(&all, &done);
    let (later, _cancel_later) = value.with_timeout(FOREVER);
    assert_canceled(&[&parent.with_value(1), &later, &later.with_cancel().0], &[]);
    // A child that ends first does not end its parent.
    for parent in [Context::background(), Context::background().with_cancel().0.without_cancel()] {
        let (child, cancel) = parent.with_cancel();
        assert_open(&[&parent, &child]);
        cancel.cancel();
        assert_canceled(&[&child], &[]);
        assert_open(&[&parent]);
    }
}
shared_test!(cancellation_reaches_all_descendants_before_it_returns);

fn earliest_deadline_of_the_ancestors_counts() {
    let soon = now() + Duration::from_millis(1);
    let (above, _cancel_above) = Context::background().with_deadline(soon);
    let (below, _cancel_below) = above.with_value(7).with_timeout(FOREVER);
    assert_eq!((above.deadline(), below.deadline()), (Some(soon), Some(soon)));
    assert_eq!((below.wait(), now() >= soon), (ContextError::DeadlineExceeded, true));
    for past in [now(), now() - Duration::from_millis(1)] {
        let (context, cancel) = Context::background().with_deadline(past);
        assert_eq!(end_of(&context), (EXCEEDED, "context deadline exceeded".into()));
        cancel.cancel_with("too late");
        assert_eq!(end_of(&context), (EXCEEDED, "context deadline exceeded".into()));
        assert!(context.done().recv().is_err());
    }
    // A context that was cancelled before its deadline stays cancelled, also when the deadline has passed.
    let (context, cancel) = Context::background().with_timeout(Duration::from_millis(1));
    let (inner, cancel_inner) = context.with_timeout(FOREVER);
    cancel_inner.cancel();
    assert_canceled(&[&inner], &[]);
    while now() < context.deadline().unwrap() {
        yield_now();
    }
    cancel.cancel();
    assert_canceled(&[&inner], &[]);
    assert_eq!(context.err(), EXCEEDED);
}
shared_test!(earliest_deadline_of_the_ancestors_counts);

fn first_end_of_a_context_and_its_ancestors_is_the_cause() {
    let background = Context::background;
    assert_open(&[&background(), &background().with_value(1)]);
    // The parent is cancelled before the child, and the child before the parent.
    let (parent, cancel_parent) = background().with_cancel();
    let (first, cancel_first) = parent.with_cancel();
    let (second, cancel_second) = parent.with_value(2).with_cancel();
    cancel_first.cancel_with("child");
    cancel_parent.cancel_with("parent");
    cancel_second.cancel_with("child");
    for (context, cause) in
        [(&first, "child"), (&parent, "parent"), (&second, "parent"), (&second.with_value(3), "parent")]
    {
        assert_eq!(end_of(context), (CANCELED, cause.into()));
    }
    // A cancellation without a cause.
    let (plain, cancel_plain) = background().with_cancel();
    let (below, cancel_below) = plain.with_cancel();
    cancel_plain.cancel();
    cancel_below.cancel_with("child");
    assert_eq!(end_of(&below), (CANCELED, "context canceled".into()));
    // The cause of a deadline is that of the earliest deadline, and counts only if that deadline comes first.
    let (slow, _cancel_slow) = background().with_deadline_cause(now(), "too slow");
    let (inner, _cancel_inner) = slow.with_deadline_cause(now() + FOREVER, "never");
    let (patient, _cancel_patient) = background().with_deadline_cause(now() + FOREVER, "never");
    let (hasty, _cancel_hasty) = patient.with_deadline_cause(now(), "too slow");
    for context in [&slow, &inner, &hasty, &slow.with_cancel().0] {
        assert_eq!(end_of(context), (EXCEEDED, "too slow".into()));
    }
    let (unhurried, cancel_unhurried) = background().with_deadline_cause(now() + FOREVER, "too slow");
    cancel_unhurried.cancel();
    assert_eq!(end_of(&unhurried), (CANCELED, "context canceled".into()));
    // A context made by `without_cancel` is not done when `slow` is done, and neither are the contexts made from it.
    let cut = slow.with_value(9).without_cancel();
    assert_eq!((cut.deadline(), cut.value::<i32>()), (None, Some(&9)));
    assert_open(&[&cut, &cut.with_cancel().0.without_cancel()]);
    let (below, cancel_below) = cut.with_cancel();
    assert_open(&[&below]);
    cancel_below.cancel_with("own");
    assert_eq!(end_of(&below), (CANCELED, "own".into()));
}
shared_test!(first_end_of_a_context_and_its_ancestors_is_the_cause);

/// A G that finds a context done finds its cause, too.
fn cause_is_known_as_soon_as_a_context_is_done() {
    for round in 0..50 {
        let (context, cancel) = Context::background().with_cancel();
        let seen = context.clone();
        let watches = go(move || {
            while !seen.is_done() {
                yield_now();
            }
            end_of(&seen)
        });
        (0..round % 5).for_each(|_| yield_now());
        cancel.cancel_with("cause");
        assert_eq!(watches.join(), Ok((CANCELED, "cause".into())));
    }
}
shared_test!(cause_is_known_as_soon_as_a_context_is_done);

/// All contexts of a tree are cancelled at the same time, while Gs wait for each of them.
fn all_contexts_of_a_tree_are_cancelled_at_once() {
    let mut tree: Vec<(Context, CancelHandle)> = Vec::from([Context::background().with_cancel()]);
    for parent in 0..25 {
        for _ in 0..4 {
            let child = tree[parent].0.with_cancel();
            tree.push(child);
        }
    }
    let waits = spawn_each(&tree, |(context, _)| {
        let context = context.clone();
        move || context.wait()
    });
    join_all(go_each(tree.into_iter().rev(), move |(_, cancel)| cancel.cancel()));
    assert!(join_all(waits).into_iter().all(|error| error == ContextError::Canceled));
    // A child is cancelled while its parent is, and while the parent's channel is made.
    for _ in 0..50 {
        let (parent, cancel_parent) = Context::background().with_cancel();
        let (child, cancel_child) = parent.with_cancel();
        let other = go(move || {
            let done = parent.done();
            cancel_child.cancel();
            done
        });
        cancel_parent.cancel();
        assert_eq!(child.wait(), ContextError::Canceled);
        assert!(other.join().unwrap().recv().is_err());
    }
}
shared_test!(all_contexts_of_a_tree_are_cancelled_at_once);

/// A chain of many contexts with values, cancellations and deadlines in turn. The end of any one ends the last one, and
/// its values stay.
fn any_layer_ends_a_chain_of_contexts() {
    const LAYERS: usize = 30;
    let with_some = |(context, cancel): (Context, CancelHandle)| (context, Some(cancel));
    for ended in (1..LAYERS).step_by(3) {
        let (mut context, mut cancels) = (Context::background(), Vec::new());
        for layer in 0..LAYERS {
            let (next, cancel) = match layer % 3 {
                0 => (context.with_value(layer), None),
                1 => with_some(context.with_cancel()),
                _ => with_some(context.with_timeout(FOREVER)),
            };
            context = next;
            cancels.push(cancel);
        }
        assert_open(&[&context]);
        assert_eq!(context.value::<usize>(), Some(&(LAYERS - 3)));
        let cancel = cancels.swap_remove(ended).expect("this layer can be cancelled");
        cancel.cancel_with(ended.to_string());
        assert_eq!(end_of(&context), (CANCELED, ended.to_string()));
        assert_eq!(context.value::<usize>(), Some(&(LAYERS - 3)));
    }
}
shared_test!(any_layer_ends_a_chain_of_contexts);

fn function_runs_once_when_its_context_is_done() {
    let started = Arc::new(AtomicU32::new(0));
    let function = |context: &Context| {
        let started = started.clone();
        context.after_func(move || _ = started.fetch_add(1, Ordering::Relaxed))
    };
    let wait_for = |count| {
        while started.load(Ordering::Relaxed) != count {
            yield_now();
        }
    };
    // A function runs after a cancellation of its context or of an ancestor, after a deadline, and at once if its context
    // is done already.
    let (context, cancel) = Context::background().with_cancel();
    let below = context.with_timeout(FOREVER);
    let functions = [function(&context), function(&below.0.with_value(1))];
    cancel.cancel();
    wait_for(2);
    let (timed, _cancel_timed) = Context::background().with_timeout(Duration::from_millis(1));
    let late = [function(&timed), function(&context)];
    wait_for(4);
    assert!(functions.into_iter().chain(late).all(|function| !function.stop()), "it has run");
    // A stopped function does not run.
    let (context, cancel) = Context::background().with_cancel();
    let stopped = function(&context);
    assert!(stopped.stop());
    cancel.cancel();
    (0..10).for_each(|_| yield_now());
    assert_eq!(started.load(Ordering::Relaxed), 4);
    // The function has a G of its own: the cancellation does not wait for it.
    let (context, cancel) = Context::background().with_cancel();
    let ended = Arc::new(AtomicBool::new(false));
    let (open, gate) = channel::<()>(0);
    let ends = ended.clone();
    drop(context.after_func(move || {
        let _ = gate.recv();
        ends.store(true, Ordering::Relaxed);
    }));
    cancel.cancel();
    assert!(!ended.load(Ordering::Relaxed));
    drop(open);
    while !ended.load(Ordering::Relaxed) {
        yield_now();
    }
}
shared_test!(function_runs_once_when_its_context_is_done);
