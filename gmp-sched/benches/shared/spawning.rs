//! Workloads that yield and that spawn Gs.

use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::parallel::with_procs;
use super::report::measure;
use crate::platform::{REPETITIONS, WaitGroup, go, yield_now};

/// Measures two Gs that yield to each other on one P.
pub(super) fn yields() {
    const EACH: u64 = 200_000 * REPETITIONS;
    with_procs(1, || {
        measure("yield", 2 * EACH, || {
            let other = go(|| (0..EACH).for_each(|_| yield_now()));
            (0..EACH).for_each(|_| yield_now());
            other.join().expect("no panic");
        });
    });
}

/// Spawns a G and waits for it with a wait group, as the Go program does.
pub(super) fn spawn_wait() {
    const ROUNDS: u64 = 40_000 * REPETITIONS;
    static GROUP: WaitGroup = WaitGroup::new();
    measure("spawn_join", ROUNDS, || {
        for _ in 0..ROUNDS {
            GROUP.add(1);
            go(|| GROUP.done()).detach();
            GROUP.wait();
        }
    });
}

/// Spawns a G and joins it.
pub(super) fn spawn_join() {
    const ROUNDS: u64 = 40_000 * REPETITIONS;
    measure("spawn_join_handle", ROUNDS, || {
        for round in 0..ROUNDS {
            black_box(go(move || round).join().expect("no panic"));
        }
    });
}

/// Spawns 10,000 Gs and waits until all have run. The first measurement also allocates stacks, and the second one only
/// reuses them.
pub(super) fn spawn_batch() {
    const BATCH: usize = 10_000;
    static LEFT: AtomicUsize = AtomicUsize::new(0);
    let round = || {
        LEFT.store(BATCH, Ordering::Relaxed);
        for _ in 0..BATCH {
            go(|| LEFT.fetch_sub(1, Ordering::Release)).detach();
        }
        while LEFT.load(Ordering::Acquire) != 0 {
            yield_now();
        }
    };
    measure("spawn_batch_cold", BATCH as u64, round);
    // In the round above, some Gs may have ended before main had spawned all Gs, because main was preempted or other Ps
    // ran these Gs. Then later Gs reused the stacks of earlier ones, and not all stacks for 10,000 Gs have been
    // allocated. The next three rounds, which are not measured, allocate most of the missing stacks.
    (0..3).for_each(|_| round());
    measure("spawn_batch", 4 * REPETITIONS * BATCH as u64, || (0..4 * REPETITIONS).for_each(|_| round()));
}
