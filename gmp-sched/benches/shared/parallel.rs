//! Work that several Ps share: fork and join, one job split into parts, Gs that go through the global queue.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hint::black_box;

use super::report::{measure, report};
use crate::platform::{REPETITIONS, WaitGroup, go, now_ns, procs, set_procs};

fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

fn fib_forked(n: u64) -> u64 {
    if n < 12 {
        return fib(black_box(n));
    }
    let left = go(move || fib_forked(n - 1));
    let right = fib_forked(n - 2);
    left.join().expect("no panic") + right
}

/// Computes fib(27) by fork and join: each call spawns a G for one of its two terms. Terms below fib(12) are computed
/// without further Gs. The first run also allocates the stacks, and the later runs reuse them. For comparison, the last
/// measurement computes all of fib(27) without Gs.
pub(super) fn fib_parallel() {
    const LATER: u32 = 10;
    for (name, runs, fib) in [
        ("fib27_cut12_cold", 1, fib_forked as fn(u64) -> u64),
        ("fib27_cut12", LATER, fib_forked),
        ("fib27_sequential", LATER, fib),
    ] {
        let start = now_ns();
        (0..runs).for_each(|_| assert_eq!(fib(black_box(27)), 196_418));
        report(name, (now_ns() - start) as f64 / 1e3 / f64::from(runs), "us");
    }
}

/// Whether an odd number is prime, by trial division.
fn is_prime(number: u64) -> bool {
    number > 1
        && (3..)
            .step_by(2)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|divisor| !number.is_multiple_of(divisor))
}

/// One job that only computes is split into 64 Gs, which count primes. It runs with 1, 2, 4 and 8 Ps, so the results
/// show how much each further P helps.
pub(super) fn split_primes() {
    const PARTS: u64 = 64;
    const CANDIDATES: u64 = 100_000 * REPETITIONS;
    // Each part has numbers of all sizes, so all parts take about the same time.
    let count = |part| (part..CANDIDATES).step_by(PARTS as usize).filter(|n| is_prime(2 * n + 1)).count();
    for procs in [1, 2, 4, 8] {
        with_procs(procs, || {
            let start = now_ns();
            let parts: Vec<_> = (0..PARTS).map(|part| go(move || count(part))).collect();
            let primes: usize = parts.into_iter().map(|part| part.join().expect("no panic")).sum();
            let time = now_ns() - start;
            assert_eq!(primes, if REPETITIONS == 1 { 17_983 } else { 78_497 }, "2 is not counted");
            report("split_primes_64g", time as f64 / 1e6, "ms");
        });
    }
}

/// One G for each P spawns 1000 Gs at a time and waits for them. A local queue has no room for 1000 Gs. So many of the
/// Gs go through the global queue, for whose lock all Ps compete.
pub(super) fn global_queue() {
    const BURST: u32 = 1000;
    const ROUNDS: u64 = 10 * REPETITIONS;
    let spawners = procs() as u64;
    measure("global_queue", spawners * ROUNDS * u64::from(BURST), || {
        let spawning: Vec<_> = (0..spawners).map(|_| go(|| (0..ROUNDS).for_each(|_| burst(BURST)))).collect();
        spawning.into_iter().for_each(|handle| handle.join().expect("no panic"));
    });
}

/// Spawns `count` Gs and waits for them.
fn burst(count: u32) {
    let group = Arc::new(WaitGroup::new());
    group.add(count);
    for _ in 0..count {
        let group = group.clone();
        go(move || group.done()).detach();
    }
    group.wait();
}

/// Runs `body` with `procs` Ps.
pub(super) fn with_procs(procs: usize, body: impl FnOnce()) {
    let before = set_procs(procs).expect("as many Ps are allowed");
    body();
    set_procs(before).expect("as many Ps as before");
}
