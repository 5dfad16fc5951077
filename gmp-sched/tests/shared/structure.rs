//! Tests of contexts, scopes, coroutines and futures.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::select::{Select, recv};

use super::platform::{Context, Receiver, Timer, block_on, channel, go, now, pull, scope, sleep, try_scope, yield_now};

/// A duration that is longer than any test takes.
const FOREVER: Duration = Duration::from_secs(36_000);

fn cancellation_ends_descendants_but_not_ancestors() {
    let (top, cancel_top) = Context::background().with_cancel();
    let (left, cancel_left) = top.with_cancel();
    let (right, _cancel_right) = top.with_value(7u8).with_timeout(FOREVER);
    let (below, _cancel_below) = left.with_cancel();
    let waiting: Vec<_> = [&left, &right, &below]
        .map(|context| {
            let context = context.clone();
            go(move || context.sleep(FOREVER))
        })
        .into_iter()
        .collect();
    yield_now();
    cancel_left.cancel_with("left only");
    assert_eq!((left.err(), below.err()), (Some(ContextError::Canceled), Some(ContextError::Canceled)));
    assert_eq!(below.cause().unwrap().to_string(), "left only");
    assert!(top.err().is_none() && right.err().is_none());
    cancel_top.cancel();
    assert_eq!(right.cause().unwrap().to_string(), "context canceled");
    assert_eq!(below.cause().unwrap().to_string(), "left only");
    for waiting in waiting {
        assert_eq!(waiting.join().unwrap(), Err(ContextError::Canceled));
    }
    assert_eq!((right.value::<u8>(), left.value::<u8>()), (Some(&7), None));
}
shared_test!(cancellation_ends_descendants_but_not_ancestors);

fn context_deadline_ends_its_waits() {
    let (context, _cancel) = Context::background().with_timeout(Duration::from_millis(3));
    let deadline = context.deadline().unwrap();
    let (below, _cancel_below) = context.with_timeout(FOREVER);
    let ran = Arc::new(AtomicBool::new(false));
    let runs = ran.clone();
    let function = below.after_func(move || runs.store(true, Ordering::Relaxed));
    let timer = Timer::new(FOREVER);
    assert!(timer.wait_until(&below).is_err());
    assert!(now() >= deadline);
    assert_eq!(below.wait(), ContextError::DeadlineExceeded);
    assert_eq!(below.err().unwrap().to_string(), "context deadline exceeded");
    while !ran.load(Ordering::Relaxed) {
        yield_now();
    }
    assert!(!function.stop());
    assert!(context.without_cancel().check().is_ok());
}
shared_test!(context_deadline_ends_its_waits);

fn cancellation_ends_a_select_on_done() {
    let (cancelled, cancel) = Context::background().with_cancel();
    let (late, _cancel_late) = cancelled.with_timeout(FOREVER);
    let (timed, _cancel_timed) = Context::background().with_timeout(Duration::from_millis(2));
    let waiting: Vec<_> = [cancelled.clone(), late, timed.clone()]
        .into_iter()
        .map(|context| {
            go(move || {
                let never = Receiver::<u8>::never();
                let done = context.done();
                let (mut value, mut end) = (recv(&never), recv(&done));
                let chosen = Select::new(&mut [value.case(), end.case()]).wait();
                (chosen, context.err())
            })
        })
        .collect();
    sleep(Duration::from_millis(1));
    cancel.cancel();
    // When `cancel` has returned, the channel that `done` returns is closed, even if `done` was not called before.
    assert!(cancelled.done().is_closed());
    let (canceled, exceeded) = (Some(ContextError::Canceled), Some(ContextError::DeadlineExceeded));
    for (waiting, expected) in waiting.into_iter().zip([canceled, canceled, exceeded]) {
        assert_eq!(waiting.join().unwrap(), (1, expected));
    }
    assert!(timed.done().recv().is_err());
    assert!(!Context::background().done().is_closed());
}
shared_test!(cancellation_ends_a_select_on_done);

fn scope_children_borrow_from_their_parent() {
    let words = ["go", "to", "the", "goroutines"];
    let mut lengths = vec![0; words.len()];
    let total: usize = scope(|scope| {
        let handles: Vec<_> = words
            .iter()
            .zip(&mut lengths)
            .map(|(word, length)| {
                scope.go(move || {
                    yield_now();
                    *length = word.len();
                    scope.go(yield_now);
                    word.len()
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum()
    });
    assert_eq!((lengths, total), (vec![2, 2, 3, 10], 17));
}
shared_test!(scope_children_borrow_from_their_parent);

fn scope_waits_for_children_that_are_not_joined() {
    for round in 0..50 {
        let finished = AtomicUsize::new(0);
        scope(|scope| {
            for child in 0..10 {
                let finished = &finished;
                scope.go(move || {
                    if (round + child) % 3 == 0 {
                        yield_now();
                    }
                    finished.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(finished.load(Ordering::Relaxed), 10);
    }
}
shared_test!(scope_waits_for_children_that_are_not_joined);

fn first_error_cancels_a_scope() {
    let told = AtomicUsize::new(0);
    let result: Result<(), String> = try_scope(&Context::background(), |scope| {
        for _ in 0..5 {
            scope.go(|| {
                scope.context().wait();
                told.fetch_add(1, Ordering::Relaxed);
                Err("comes later".to_string())
            });
        }
        scope.go(|| {
            sleep(Duration::from_millis(1));
            Err("comes first".to_string())
        });
        Ok(())
    });
    assert_eq!((result, told.load(Ordering::Relaxed)), (Err("comes first".to_string()), 5));
    let given: Result<u32, String> = try_scope(&Context::background(), |scope| {
        scope.go(|| Ok(()));
        Ok(5)
    });
    assert_eq!(given, Ok(5));
}
shared_test!(first_error_cancels_a_scope);

struct Tree {
    value: u32,
    children: Vec<Tree>,
}

/// Compares the leaves of two trees, which two coroutines walk recursively. (Talks about Go call this problem "same
/// fringe".)
fn coroutines_compare_fringes_of_two_trees() {
    fn tree(depth: u32, value: u32) -> Tree {
        let children =
            if depth == 0 { Vec::new() } else { vec![tree(depth - 1, 2 * value), tree(depth - 1, 2 * value + 1)] };
        Tree { value, children }
    }
    fn leaves(tree: Tree) -> impl Iterator<Item = u32> {
        fn walk(tree: &Tree, give: &mut dyn FnMut(u32) -> bool) -> bool {
            if tree.children.is_empty() {
                return give(tree.value);
            }
            tree.children.iter().all(|child| walk(child, give))
        }
        pull(move |yielder| {
            walk(&tree, &mut |value| yielder.yield_value(value));
        })
    }
    assert!(leaves(tree(8, 1)).eq(256..512));
    assert!(leaves(tree(6, 1)).eq(leaves(tree(6, 1))));
    // Dropping an unfinished coroutine ends it.
    assert_eq!(leaves(tree(6, 1)).take(3).collect::<Vec<_>>(), [64, 65, 66]);
}
shared_test!(coroutines_compare_fringes_of_two_trees);

fn coroutine_may_block_and_migrate() {
    let mut values = pull(|yielder| {
        for value in 0..20 {
            sleep(Duration::from_micros(100));
            yield_now();
            if !yielder.yield_value(value) {
                return;
            }
        }
    });
    let first: Vec<_> = values.by_ref().take(5).collect();
    let rest = go(move || values.collect::<Vec<i32>>()).join().unwrap();
    assert!(first.into_iter().chain(rest).eq(0..20));
}
shared_test!(coroutine_may_block_and_migrate);

fn woken_future_is_polled_again() {
    let (sender, wakers) = channel::<Waker>(0);
    let waiting = go(move || {
        let mut polls = 0;
        block_on(poll_fn(|context| {
            polls += 1;
            if polls > 3 {
                return Poll::Ready(polls);
            }
            sender.send(context.waker().clone()).unwrap();
            Poll::Pending
        }))
    });
    let mut stale = Vec::new();
    while let Ok(waker) = wakers.recv() {
        waker.wake_by_ref();
        stale.push(waker);
    }
    assert_eq!((waiting.join().unwrap(), stale.len()), (4, 3));
    // These wakers are called long after the future is done and wake no G.
    stale.into_iter().for_each(Waker::wake);
}
shared_test!(woken_future_is_polled_again);
