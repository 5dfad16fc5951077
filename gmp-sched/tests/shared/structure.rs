//! Tests of scopes and coroutines.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::platform::{go, pull, scope, sleep, yield_now};

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
