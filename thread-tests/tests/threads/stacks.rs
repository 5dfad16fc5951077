//! Which G runs on which stack. A G that ends leaves its stack to the next G that begins.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};

use gmp_sched::native::{self, Native};
use gmp_sched::platform::Pinned;
use thread_tests::THREADS;

/// Returns the upper end of the calling G's stack.
fn my_stack() -> usize {
    let here = 0u8;
    let address = std::ptr::from_ref(black_box(&here)).addr();
    let stack = Pinned::<Native>::new().goroutine().stack();
    assert!(stack.contains(&address), "a G runs at {address:#x}, and its stack is {stack:#x?}");
    stack.end
}

#[test]
fn consecutive_gs_share_one_stack() {
    // There are more Gs than fit into a local queue. When a G ends, it usually switches directly to the next one. Some
    // Gs are started by g0 instead, after it has taken a batch from the global queue.
    const GOROUTINES: usize = 1000;
    let stacks = THREADS.run(1, || {
        let (stacks, all) = (Arc::new(Mutex::new(HashMap::new())), Arc::new(native::WaitGroup::new()));
        for _ in 0..GOROUTINES {
            let (stacks, all) = (stacks.clone(), all.clone());
            all.add(1);
            native::go(move || {
                *stacks.lock().unwrap().entry(my_stack()).or_insert(0) += 1;
                all.done();
            })
            .detach();
        }
        all.wait();
        Arc::into_inner(stacks).unwrap().into_inner().unwrap()
    });
    assert_eq!(stacks.values().sum::<usize>(), GOROUTINES);
    assert_eq!(stacks.len(), 1, "{stacks:?}");
}

#[test]
fn concurrent_gs_have_separate_stacks() {
    for processors in [1, 2, 4] {
        let stacks = THREADS.run(processors, || {
            let mut all: Vec<_> = Vec::new();
            for number in 0..300 {
                all.push(native::go(move || {
                    let mine = my_stack();
                    let marks = black_box([number; 100]);
                    // Meanwhile, the Gs spawned before and after this G end and leave their stacks to other Gs.
                    for _ in 0..3 {
                        native::go(|| black_box([u64::MAX; 100]).len()).detach();
                        native::yield_now();
                    }
                    assert_eq!(my_stack(), mine);
                    assert_eq!(black_box(marks), [number; 100]);
                    mine
                }));
            }
            all.into_iter().map(|handle| handle.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(stacks.len(), 300);
    }
}

/// The closure or the result is too large for the G's slot, so it is stored on the G's stack.
#[test]
fn closure_and_result_on_a_stack_stay_there() {
    for processors in [1, 2] {
        THREADS.run(processors, || {
            let all: Vec<_> = (0..200u64)
                .map(|number| {
                    let large = [number; 50];
                    // The closure or the result, or both, are too large for the G's slot.
                    let small_result = native::go(move || large.iter().sum::<u64>());
                    let small_closure = native::go(move || [number; 60]);
                    let both = native::go(move || large);
                    (number, small_result, small_closure, both)
                })
                .collect();
            for (number, small_result, small_closure, both) in all {
                // Other Gs have meanwhile reused stacks of Gs that have ended. They must not have overwritten these
                // results.
                assert_eq!(small_result.join(), Ok(number * 50));
                assert_eq!(small_closure.join().unwrap(), [number; 60]);
                assert_eq!(both.join().unwrap(), [number; 50]);
            }
        });
    }
}

#[test]
fn stack_of_a_chosen_size_is_not_exchanged() {
    const LARGE: usize = 1 << 20;
    fn deep(levels: usize) -> usize {
        let room = black_box([0u8; 1000]);
        if levels == 0 { room.len() } else { 1 + deep(levels - 1) }
    }
    THREADS.run(1, || {
        for _ in 0..10 {
            let all = Arc::new(native::WaitGroup::new());
            all.add(20);
            for _ in 0..10 {
                // The Gs alternate in the run queue, and no G blocks. So each G except the first begins at the moment
                // when a G with the other stack size ends. It must not take over the stack of that G.
                let done = all.clone();
                native::go(move || {
                    assert!(Pinned::<Native>::new().goroutine().stack().len() < LARGE);
                    done.done();
                })
                .detach();
                let done = all.clone();
                let large = native::Builder::new().stack_size(LARGE).try_go(move || {
                    // On a small stack, this would overflow.
                    deep(LARGE / 8000);
                    assert!(Pinned::<Native>::new().goroutine().stack().len() >= LARGE);
                    done.done();
                });
                large.unwrap().detach();
            }
            all.wait();
        }
    });
}
