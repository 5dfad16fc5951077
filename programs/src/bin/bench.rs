//! Benchmarks of the scheduler.
//!
//! Each workload prints a line `bench NAME procs=N VALUE UNIT`. The Go program with which the results are compared uses
//! the same names and parameters.
//!
//! `cargo run -- --icount --smp 1 bench [FILTER]` counts instructions. One nanosecond is then one instruction, and all
//! runs have the same results.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use kernel::clock::now;
use kernel::mm;
use kernel::prelude::*;

kernel::main!(main);

fn main(arguments: &[&str]) {
    let filter = arguments.first().copied().unwrap_or("");
    println!("gmp-sched cpus {}", num_cpu());
    let workloads: &[(&str, fn())] = &[
        ("yield", yields),
        ("chan_pingpong", ping_pong),
        ("spawn_join", spawn_wait),
        ("spawn_join_handle", spawn_join),
        ("spawn_batch", spawn_batch),
        ("chan_mpmc_4x4_cap128", many_to_many),
        ("select_4", select_of_four),
        ("ring_1000", ring),
        ("skynet_100k", skynet),
        ("mutex_8g", mutex_8g),
        ("uncontended", uncontended),
        ("semaphore_8g", semaphore_8g),
        ("fib27_cut12", fib_parallel),
        ("sleep_overshoot", sleepers),
        ("hog_wakeup", hogs),
        ("bytes_per_parked_g", parked),
    ];
    for (_, workload) in workloads.iter().filter(|(name, _)| name.contains(filter)) {
        workload();
    }
    println!("bench done");
}

fn report(name: &str, value: f64, unit: &str) {
    println!("bench {name} procs={} {value:.1} {unit}", procs());
}

/// Runs `body`, which performs `operations` operations, and prints the nanoseconds per operation.
fn measure(name: &str, operations: u64, body: impl FnOnce()) {
    let start = now();
    body();
    report(name, (now() - start) as f64 / operations as f64, "ns/op");
}

/// Two Gs that yield to each other.
fn yields() {
    const EACH: u64 = 200_000;
    measure("yield", 2 * EACH, || {
        let other = go(|| (0..EACH).for_each(|_| yield_now()));
        (0..EACH).for_each(|_| yield_now());
        other.join().expect("no panic");
    });
}

/// Round trips between two Gs over two unbuffered channels.
fn ping_pong() {
    const ROUNDS: u64 = 60_000;
    let (there, here) = (Chan::new(0), Chan::new(0));
    let (to, from) = (there.clone(), here.clone());
    let other = go(move || {
        for _ in 0..ROUNDS {
            let value: u64 = to.recv().expect("open");
            from.send(value).expect("open");
        }
    });
    measure("chan_pingpong", ROUNDS, || {
        for round in 0..ROUNDS {
            there.send(round).expect("open");
            here.recv().expect("open");
        }
        other.join().expect("no panic");
    });
}

/// Messages from four senders to four receivers over a channel with capacity 128.
fn many_to_many() {
    const EACH: u64 = 20_000;
    measure("chan_mpmc_4x4_cap128", 4 * EACH, || {
        let (sender, receiver) = channel(128);
        for _ in 0..4 {
            let sender = sender.clone();
            go(move || (0..EACH).for_each(|n| sender.send(n).expect("receivers"))).detach();
        }
        drop(sender);
        let receivers: Vec<_> = (0..4)
            .map(|_| {
                let receiver = receiver.clone();
                go(move || receiver.into_iter().sum::<u64>())
            })
            .collect();
        let sum: u64 = receivers.into_iter().map(|handle| handle.join().expect("no panic")).sum();
        assert_eq!(sum, 2 * EACH * (EACH - 1));
    });
}

/// One G receives by selects over four unbuffered channels. Each channel has one sender.
fn select_of_four() {
    const EACH: u64 = 10_000;
    let chans: [Chan<u64>; 4] = core::array::from_fn(|_| Chan::new(0));
    measure("select_4", 4 * EACH, || {
        for chan in &chans {
            let sender = chan.sender().clone();
            go(move || (0..EACH).for_each(|n| sender.send(n).expect("a receiver"))).detach();
        }
        let [one, two, three, four] = chans.each_ref().map(Chan::receiver);
        for _ in 0..4 * EACH {
            select! {
                recv(one) -> value => black_box(value),
                recv(two) -> value => black_box(value),
                recv(three) -> value => black_box(value),
                recv(four) -> value => black_box(value),
            }
            .expect("open");
        }
    });
}

/// A token goes around a ring of 1000 Gs, which are linked by unbuffered channels. One hop is one operation.
fn ring() {
    const HOPS: u64 = 200_000;
    let (first, mut receiver) = channel::<u64>(0);
    for _ in 0..999 {
        let (sender, next) = channel(0);
        go(move || receiver.into_iter().for_each(|token| sender.send(token).expect("the ring is closed"))).detach();
        receiver = next;
    }
    measure("ring_1000", HOPS, || {
        let starter = first.clone();
        go(move || starter.send(HOPS).expect("the ring is closed")).detach();
        for token in receiver.iter() {
            let left = token.saturating_sub(1000);
            if left == 0 {
                break;
            }
            first.send(left).expect("the ring is closed");
        }
    });
}

fn skynet_node(parent: Sender<u64>, number: u64, size: u64) {
    if size == 1 {
        parent.send(number).expect("it waits");
        return;
    }
    let (sender, receiver) = channel(0);
    for child in 0..10 {
        let sender = sender.clone();
        go(move || skynet_node(sender, number + child * (size / 10), size / 10)).detach();
    }
    parent.send((0..10).map(|_| receiver.recv().expect("ten of them")).sum()).expect("it waits");
}

/// Runs a tree of Gs with ten children each and 100,000 leaves. The first run also allocates the stacks, and the second
/// run reuses them.
fn skynet() {
    for name in ["skynet_100k_cold", "skynet_100k"] {
        measure(name, 111_111, || {
            let (sender, receiver) = channel(0);
            go(move || skynet_node(sender, 0, 100_000)).detach();
            assert_eq!(receiver.recv(), Ok(4_999_950_000));
        });
    }
}

/// Spawns a G and waits for it with a wait group, as the Go program does.
fn spawn_wait() {
    const ROUNDS: u64 = 40_000;
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
fn spawn_join() {
    const ROUNDS: u64 = 40_000;
    measure("spawn_join_handle", ROUNDS, || {
        for round in 0..ROUNDS {
            black_box(go(move || round).join().expect("no panic"));
        }
    });
}

/// Spawns 10,000 Gs and waits until all have run. The first round also allocates stacks, and the later rounds reuse
/// them.
fn spawn_batch() {
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
    // In the first rounds main is preempted before it has spawned all Gs, so fewer Gs are alive at once than later. These
    // rounds are not measured, and allocate the stacks that are still missing.
    (0..3).for_each(|_| round());
    measure("spawn_batch", 4 * BATCH as u64, || (0..4).for_each(|_| round()));
}

/// Runs `body` `each` times in each of eight Gs, and waits for all of them.
fn in_eight(each: u64, body: impl Fn() + Copy + Send + 'static) {
    static FINISHED: WaitGroup = WaitGroup::new();
    FINISHED.add(8);
    for _ in 0..8 {
        go(move || {
            (0..each).for_each(|_| body());
            FINISHED.done();
        })
        .detach();
    }
    FINISHED.wait();
}

/// Eight Gs increment a counter under one mutex.
fn mutex_8g() {
    const EACH: u64 = 200_000;
    static COUNT: Mutex<u64> = Mutex::new(0);
    measure("mutex_8g", 8 * EACH, || in_eight(EACH, || *COUNT.lock() += 1));
    assert_eq!(*COUNT.lock() % (8 * EACH), 0);
}

/// Eight Gs share four permits. Each G acquires and releases one permit at a time.
fn semaphore_8g() {
    const EACH: u64 = 50_000;
    static SEMAPHORE: Semaphore = Semaphore::new(4);
    measure("semaphore_8g", 8 * EACH, || in_eight(EACH, || drop(SEMAPHORE.acquire(1))));
}

/// The cost of lock operations without contention.
fn uncontended() {
    fn each(name: &str, body: impl Fn()) {
        const ROUNDS: u64 = 100_000;
        measure(name, ROUNDS, || (0..ROUNDS).for_each(|_| body()));
    }
    let (rwlock, read_mostly, once) = (RwLock::new(0u64), ReadMostlyRwLock::new(0u64), Once::new());
    each("rwlock_read", || _ = black_box(*rwlock.read()));
    each("rwlock_write", || *rwlock.write() += 1);
    each("read_mostly_read", || _ = black_box(*read_mostly.read()));
    each("read_mostly_write", || *read_mostly.write() += 1);
    each("once_done", || once.call_once(|| ()));
}

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

/// Computes fib(27) by fork and join, sequentially below fib(12). The last measurement uses no Gs.
fn fib_parallel() {
    for (name, fib) in
        [("fib27_cut12_cold", fib_forked as fn(u64) -> u64), ("fib27_cut12", fib_forked), ("fib27_sequential", fib)]
    {
        let start = now();
        assert_eq!(fib(black_box(27)), 196_418);
        report(name, (now() - start) as f64 / 1e6, "ms");
    }
}

/// Returns the quantile `share` (from 0 to 1) of `sorted`, which is in nanoseconds. The result is in microseconds.
fn percentile(sorted: &[u64], share: f64) -> f64 {
    sorted[(share * (sorted.len() - 1) as f64) as usize] as f64 / 1e3
}

fn report_late(name: &str, mut late: Vec<u64>) {
    late.sort_unstable();
    report(&format!("{name}_p50"), percentile(&late, 0.5), "us");
    report(&format!("{name}_p99"), percentile(&late, 0.99), "us");
}

/// Sleeps for `milliseconds` and returns how late the sleep ended, in nanoseconds.
fn lateness(milliseconds: u64) -> u64 {
    let start = now();
    sleep(Duration::from_millis(milliseconds));
    now() - start - milliseconds * 1_000_000
}

/// 1000 Gs sleep 20 times each, for 1 to 10 ms.
fn sleepers() {
    let sleeping: Vec<_> = (0..1000)
        .map(|g| go(move || (0..20).map(|n| lateness(1 + (g * 7 + n * 3) % 10)).collect::<Vec<_>>()))
        .collect();
    let late = sleeping.into_iter().flat_map(|handle| handle.join().expect("no panic")).collect();
    report_late("sleep_overshoot", late);
}

static STOP: AtomicBool = AtomicBool::new(false);
static SINK: AtomicU64 = AtomicU64::new(0);

/// Each P runs a hog (a G that computes and never waits), and main wakes repeatedly from sleeps of 1 ms.
fn hogs() {
    STOP.store(false, Ordering::Relaxed);
    let hogs: Vec<_> = (0..procs())
        .map(|_| {
            go(|| {
                let mut x = 1u64;
                while !STOP.load(Ordering::Relaxed) {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                }
                SINK.fetch_add(x, Ordering::Relaxed);
            })
        })
        .collect();
    let late = (0..100).map(|_| lateness(1)).collect();
    STOP.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().expect("no panic"));
    report_late("hog_wakeup", late);
}

/// Measures how much memory a G takes while it waits for a channel, with 100,000 Gs.
fn parked() {
    const COUNT: usize = 100_000;
    mm::free_cached_memory();
    let before = mm::usage().free;
    let (sender, receiver) = channel::<bool>(0);
    for _ in 0..COUNT {
        let receiver = receiver.clone();
        go(move || receiver.recv().is_err()).detach();
    }
    for _ in 0..10 {
        yield_now();
        sleep(Duration::from_millis(10));
    }
    report("bytes_per_parked_g", (before - mm::usage().free) as f64 / COUNT as f64, "B");
    drop(sender);
}
