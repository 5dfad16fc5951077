//! Slices: a runnable G waits a bounded number of them, whatever the others do.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::platform::{go, syscall, yield_now};

/// After so many steps a G ends by itself that would have given way long before: a failure does not hang.
const MOST: usize = 30_000_000;

/// Gs that make system calls in a loop, more than there are Ps, each too short for its P to be taken away.
fn short_system_calls_leave_the_others_their_turns() {
    let (round, callers) = (Arc::new(AtomicUsize::new(1)), 4);
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..callers).map(|_| AtomicUsize::new(0)).collect());
    let handles: Vec<_> = (0..callers)
        .map(|caller| {
            let (round, seen) = (round.clone(), seen.clone());
            go(move || {
                let calls = (0..MOST).take_while(|_| {
                    syscall(|| ());
                    seen[caller].store(round.load(Ordering::Relaxed), Ordering::Relaxed);
                    round.load(Ordering::Relaxed) != 0
                });
                calls.count()
            })
        })
        .collect();
    for number in 1..=3 {
        round.store(number, Ordering::Relaxed);
        // All others have a turn in each round, and so has this one.
        while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < number) {
            yield_now();
        }
    }
    round.store(0, Ordering::Relaxed);
    for handle in handles {
        assert!(handle.join().unwrap() < MOST, "a G was never made to give way");
    }
}
shared_test!(short_system_calls_leave_the_others_their_turns, procs = &[1, 2]);
