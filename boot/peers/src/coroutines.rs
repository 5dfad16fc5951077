//! The workloads on the library `may`, whose coroutines have stacks, like Gs. Channels of `may` have no limit, so a
//! send never waits.
//!
//! The workload `skynet_100k` is left out. Its tree of coroutines would be spawned level by level, so nearly all of the
//! stacks would exist at the same time. These stacks and their guard pages would need more memory mappings than Linux
//! allows a process.

use std::sync::Arc;
use std::time::Instant;

use may::coroutine::{sleep, yield_now};
use may::go;
use may::sync::{Mutex, mpmc, mpsc};

use crate::report::{
    PARTS, count_primes, fib, memory_in_use, nap, place, report_each, report_late, report_memory,
    report_microseconds_each, report_milliseconds, report_places, version_of,
};
use crate::{Arguments, Workload};

pub fn run(arguments: &Arguments) {
    println!("may {}; all channels are unlimited", version_of("may"));
    // The library `may` has one scheduler for the whole process, which starts with the first coroutine.
    may::config().set_workers(arguments.procs);
    arguments.run(&arguments.procs, WORKLOADS);
}

const WORKLOADS: &[Workload<usize>] = &[
    ("yield", yields),
    ("chan_pingpong", ping_pong),
    ("spawn_join", spawn_join),
    ("spawn_batch", spawn_batch),
    ("chan_mpmc_4x4_cap128", many_to_many),
    ("ring_1000", ring),
    ("mutex_8g", mutex),
    ("fib27_cut12", fib_parallel),
    ("sleep_overshoot", sleepers),
    ("global_queue", global_queue),
    ("split_primes_64g", split_primes),
    ("pingpong_one", ping_pong_places),
    ("bytes_per_parked_g", parked),
];

/// Runs `body` in a coroutine and waits for it.
fn in_coroutine(body: impl FnOnce() + Send + 'static) {
    go!(body).join().expect("no panic");
}

/// Runs `body` in `count` coroutines, and waits for all of them. Returns their results.
fn in_parallel<T: Send + 'static>(count: u64, body: impl Fn(u64) -> T + Clone + Send + 'static) -> Vec<T> {
    let start = |number| {
        let body = body.clone();
        go!(move || body(number))
    };
    let all: Vec<_> = (0..count).map(start).collect();
    all.into_iter().map(|one| one.join().expect("no panic")).collect()
}

/// This workload measures the switch between two coroutines, so it runs only with one worker. With two workers, each
/// coroutine could have a worker of its own, and a yield would not switch to the other coroutine.
fn yields(&procs: &usize) {
    const EACH: u64 = 1_000_000;
    if procs == 1 {
        in_coroutine(|| {
            let start = Instant::now();
            in_parallel(2, |_| (0..EACH).for_each(|_| yield_now()));
            report_each("yield", 1, 2 * EACH, start);
        });
    }
}

fn ping_pong(&procs: &usize) {
    const ROUNDS: u64 = 300_000;
    in_coroutine(move || {
        let ((to, there), (from, here)) = (mpsc::channel(), mpsc::channel());
        let start = Instant::now();
        let other = go!(move || there.into_iter().for_each(|value: u64| from.send(value).expect("open")));
        for round in 0..ROUNDS {
            to.send(round).expect("open");
            here.recv().expect("open");
        }
        drop(to);
        other.join().expect("no panic");
        report_each("chan_pingpong", procs, ROUNDS, start);
    });
}

fn spawn_join(&procs: &usize) {
    const ROUNDS: u64 = 200_000;
    in_coroutine(move || {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| go!(|| ()).join().expect("no panic"));
        report_each("spawn_join", procs, ROUNDS, start);
    });
}

fn spawn_batch(&procs: &usize) {
    const BATCH: u64 = 10_000;
    in_coroutine(move || {
        for (name, rounds) in [("spawn_batch_cold", 1), ("spawn_batch", 20)] {
            let start = Instant::now();
            (0..rounds).for_each(|_| drop(in_parallel(BATCH, |_| ())));
            report_each(name, procs, rounds * BATCH, start);
        }
    });
}

fn many_to_many(&procs: &usize) {
    const EACH: u64 = 100_000;
    in_coroutine(move || {
        let start = Instant::now();
        let (sender, receiver) = mpmc::channel();
        for _ in 0..4 {
            let sender = sender.clone();
            go!(move || (0..EACH).for_each(|value| sender.send(value).expect("receivers")));
        }
        drop(sender);
        let sums = in_parallel(4, move |_| receiver.iter().sum::<u64>());
        assert_eq!(sums.iter().sum::<u64>(), 2 * EACH * (EACH - 1));
        report_each("chan_mpmc_4x4_cap128", procs, 4 * EACH, start);
    });
}

fn ring(&procs: &usize) {
    const HOPS: u64 = 1_000_000;
    in_coroutine(move || {
        let (first, mut last) = mpsc::channel::<u64>();
        for _ in 1..1000 {
            let (sender, receiver) = mpsc::channel();
            let from = std::mem::replace(&mut last, receiver);
            go!(move || from.into_iter().for_each(|token| _ = sender.send(token)));
        }
        let start = Instant::now();
        first.send(HOPS).expect("the ring is closed");
        for token in last {
            if token <= 1000 {
                break;
            }
            first.send(token - 1000).expect("the ring is closed");
        }
        report_each("ring_1000", procs, HOPS, start);
    });
}

fn mutex(&procs: &usize) {
    const EACH: u64 = 200_000;
    in_coroutine(move || {
        let count = Arc::new(Mutex::new(0));
        let counted = count.clone();
        let start = Instant::now();
        in_parallel(8, move |_| (0..EACH).for_each(|_| *counted.lock().expect("no panic") += 1));
        assert_eq!(*count.lock().expect("no panic"), 8 * EACH);
        report_each("mutex_8g", procs, 8 * EACH, start);
    });
}

fn fib_forked(n: u64) -> u64 {
    if n < 12 {
        return fib(n);
    }
    let left = go!(move || fib_forked(n - 1));
    let right = fib_forked(n - 2);
    left.join().expect("no panic") + right
}

fn fib_parallel(&procs: &usize) {
    in_coroutine(move || {
        for (name, runs) in [("fib27_cut12_cold", 1), ("fib27_cut12", 10)] {
            let start = Instant::now();
            (0..runs).for_each(|_| assert_eq!(fib_forked(27), 196_418));
            report_microseconds_each(name, procs, runs, start);
        }
    });
}

fn sleepers(&procs: &usize) {
    in_coroutine(move || {
        let nap_and_measure = |g, n| {
            let start = Instant::now();
            sleep(nap(g, n));
            start.elapsed().saturating_sub(nap(g, n))
        };
        let late = in_parallel(1000, move |g| (0..20).map(|n| nap_and_measure(g, n)).collect::<Vec<_>>());
        report_late("sleep_overshoot", procs, late.concat());
    });
}

fn global_queue(&procs: &usize) {
    const BURST: u64 = 1000;
    const ROUNDS: u64 = 50;
    in_coroutine(move || {
        let start = Instant::now();
        in_parallel(procs as u64, |_| (0..ROUNDS).for_each(|_| drop(in_parallel(BURST, |_| ()))));
        report_each("global_queue", procs, procs as u64 * ROUNDS * BURST, start);
    });
}

fn split_primes(&procs: &usize) {
    in_coroutine(move || {
        let start = Instant::now();
        assert_eq!(in_parallel(PARTS, count_primes).into_iter().sum::<usize>(), 78_497);
        report_milliseconds("split_primes_64g", procs, start);
    });
}

fn ping_pong_places(&procs: &usize) {
    in_coroutine(move || {
        let ((to, there), (from, here)) = (mpsc::channel(), mpsc::channel());
        go!(move || there.into_iter().for_each(|()| from.send(place()).expect("open")));
        let places: Vec<_> = (0..20_000)
            .map(|_| {
                to.send(()).expect("open");
                let theirs = here.recv().expect("open");
                [place(), theirs]
            })
            .collect();
        report_places(procs, &places);
    });
}

fn parked(&procs: &usize) {
    // With more coroutines, the stacks and their guard pages would need more memory mappings than Linux allows a
    // process.
    const COUNT: u64 = 20_000;
    in_coroutine(move || {
        let before = memory_in_use();
        let (end, waiting) = mpmc::channel::<()>();
        let all: Vec<_> = (0..COUNT)
            .map(|_| {
                let waiting = waiting.clone();
                go!(move || waiting.recv().is_err())
            })
            .collect();
        (0..10).for_each(|_| sleep(nap(0, 0) * 10));
        report_memory(procs, before, COUNT as usize);
        drop(end);
        all.into_iter().for_each(|one| drop(one.join()));
    });
}
