//! Tests of `panic=isolate` with Gs that overflow their stacks, and with Gs from whose frames other Gs borrow.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gmp_sched::JoinError;
use kernel::mm;
use kernel::percpu::PreemptGuard;
use kernel::prelude::*;

use crate::provoke;

fn joiner_gets_the_stack_overflow() {
    let fails = go(provoke::stack_overflow);
    let works = go(|| 8);
    assert_eq!(fails.join(), Err(JoinError::StackOverflow));
    assert_eq!(works.join(), Ok(8));
    let large = Builder::new().stack_size(1 << 20).go(provoke::stack_overflow);
    assert_eq!(large.join().expect_err("it has no bottom").to_string(), "the G overflowed its stack");
}
guest_test!(
    joiner_gets_the_stack_overflow,
    smp = &[1, 2, 8],
    options = &["panic=isolate"],
    texts = &[
        "stack overflow:",
        "exceeds its 64 KiB stack",
        "(`Builder::stack_size` chooses a larger stack)",
        "[running] on CPU",
        "deeper (qemu-tests/guest/src/provoke.rs:",
        "is dead and the others go on. What it held stays held; its stack of 64 KiB is not used again.",
        "exceeds its 1024 KiB stack",
    ],
);

fn huge_frame_ends_only_its_g() {
    assert_eq!(go(provoke::huge_frame).join(), Err(JoinError::StackOverflow));
    assert_eq!(Builder::new().stack_size(2 << 20).go(provoke::huge_frame).join(), Ok(()));
    // This closure may be inlined into the function of the scheduler that calls it. In this case, that function has the
    // huge frame.
    let inlined = go(|| {
        core::hint::black_box(&[core::hint::black_box(7_u8); 1 << 20]);
    });
    assert_eq!(inlined.join(), Err(JoinError::StackOverflow));
}
guest_test!(
    huge_frame_ends_only_its_g,
    smp = &[1, 8],
    options = &["panic=isolate"],
    texts = &[
        "stack overflow:",
        "exceeds its 64 KiB stack",
        " by one huge frame: a function has 1,02",
        "a `Box` or a `Vec` keeps its content on the heap",
        "with_large_array (qemu-tests/guest/src/provoke.rs:",
        "huge_frame (qemu-tests/guest/src/provoke.rs:",
        "{closure#0} (qemu-tests/guest/src/overflow.rs:",
        "is dead and the others go on",
    ],
);

fn death_of_main_ends_the_machine() {
    provoke::stack_overflow();
}
guest_test!(
    death_of_main_ends_the_machine,
    options = &["panic=isolate"],
    status = 2,
    texts = &["goroutine 1 exceeds its", "fatal error: stack overflow", "goroutine 1 [running]"],
);

fn death_with_preemption_off_ends_the_machine() {
    let _ = go(|| {
        let _off = PreemptGuard::new();
        provoke::stack_overflow();
    })
    .join();
}
guest_test!(
    death_with_preemption_off_ends_the_machine,
    options = &["panic=isolate"],
    status = 2,
    texts = &["exceeds its 64 KiB stack", "fatal error: stack overflow"],
);

fn overflow_without_memory_ends_the_machine() {
    let _ = go(|| {
        // The G touches these pages of its stack while there is memory. Later no memory is left for the pages below
        // them.
        core::hint::black_box([0u8; 56 * 1024]);
        mm::free_cached_memory();
        while kernel::internals::allocate_frame().is_ok() {}
        provoke::stack_overflow();
    })
    .join();
}
guest_test!(
    overflow_without_memory_ends_the_machine,
    memory = 32,
    options = &["panic=isolate"],
    status = 2,
    texts = &["exceeds its 64 KiB stack", "fatal error: stack overflow"],
);

/// Ends the calling G by a stack overflow or by a panic. At that moment its children borrow from its stack frames.
fn end(by_overflow: bool) {
    if by_overflow {
        provoke::stack_overflow();
    }
    panic!("with children alive");
}

/// A G dies while its children read values that they borrow from the G and from the G's own parent. The children
/// continue until they are stopped, after many more reads.
fn children_continue_after_their_parent_died() {
    for by_overflow in [false, true] {
        let error = if by_overflow { JoinError::StackOverflow } else { JoinError::panicked() };
        let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        let of_grandparent = vec![7u64; 1000];
        let is_over = AtomicUsize::new(0);
        scope(|outer| {
            let parent = outer.go(|| {
                let of_parent = [9u64; 100];
                scope(|inner| {
                    for _ in 0..4 {
                        inner.go(|| {
                            while !stop.load(Ordering::Relaxed) {
                                assert!(of_grandparent.iter().all(|&word| word == 7));
                                assert!(core::hint::black_box(&of_parent).iter().all(|&word| word == 9));
                                reads.fetch_add(1, Ordering::Relaxed);
                                yield_now();
                            }
                            is_over.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                    // A nested scope is open when the G dies.
                    scope(|innermost| {
                        innermost.go(|| sleep(Duration::from_millis(1)));
                        end(by_overflow);
                    });
                });
            });
            let before = reads.load(Ordering::Relaxed);
            while reads.load(Ordering::Relaxed) < before + 1000 {
                assert!(!parent.is_finished(), "it has children");
                yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            assert_eq!(parent.join(), Err(error));
            assert_eq!(is_over.load(Ordering::Relaxed), 4, "children were left alone");
        });
        drop(of_grandparent);
    }
}
guest_test!(
    children_continue_after_their_parent_died,
    smp = &[1, 2, 8],
    options = &["panic=isolate"],
    texts = &["with children alive", "stack overflow:"],
);

/// If a child that is not joined dies, its parent panics. This panic ends only the parent. If the child is joined, the
/// joiner gets the error, and the parent does not panic.
fn death_of_an_unjoined_child_panics_its_parent() {
    for by_overflow in [false, true] {
        let parent = go(move || scope(|scope| drop(scope.go(move || end(by_overflow)))));
        assert_eq!(parent.join(), Err(JoinError::panicked()));
        let told = go(move || scope(|scope| scope.go(move || end(by_overflow)).join()));
        let error = if by_overflow { JoinError::StackOverflow } else { JoinError::panicked() };
        assert_eq!(told.join(), Ok(Err(error)));
    }
}
guest_test!(
    death_of_an_unjoined_child_panics_its_parent,
    smp = &[1, 2, 8],
    options = &["panic=isolate"],
    texts = &["a scoped G panicked"]
);

/// A G that calls `goexit` waits for its children, too.
fn goexit_waits_for_children() {
    let ended = AtomicUsize::new(0);
    scope(|outer| {
        let parent = outer.go(|| {
            scope(|inner| {
                for milliseconds in 1..4 {
                    let ended = &ended;
                    inner.go(move || {
                        sleep(Duration::from_millis(milliseconds));
                        ended.fetch_add(1, Ordering::Relaxed);
                    });
                }
                goexit();
            });
        });
        assert_eq!(parent.join(), Err(JoinError::Exited));
        assert_eq!(ended.load(Ordering::Relaxed), 3);
    });
}
guest_test!(goexit_waits_for_children, smp = &[1, 2, 8]);

/// Children wait for a lock that their dead parent still holds. The deadlock is reported.
fn children_waiting_for_a_lock_of_their_dead_parent_deadlock() {
    let lock = Mutex::new(());
    let (lock, is_held) = (&lock, &AtomicBool::new(false));
    scope(|outer| {
        outer.go(|| {
            scope(|inner| {
                inner.go(|| {
                    while !is_held.load(Ordering::Relaxed) {
                        yield_now();
                    }
                    drop(lock.lock());
                });
                let _held = lock.lock();
                is_held.store(true, Ordering::Relaxed);
                end(false);
            });
        });
    });
}
guest_test!(
    children_waiting_for_a_lock_of_their_dead_parent_deadlock,
    options = &["panic=isolate"],
    status = 2,
    texts = &["with children alive", "all goroutines are asleep - deadlock!", "[scope"],
);
