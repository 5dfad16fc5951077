//! Benchmarks of the scheduler.
//!
//! Each workload prints a line `bench NAME procs=N VALUE UNIT`. The Go program with which the results are compared uses
//! the same names and parameters. The module `shared` has the workloads that also run on threads of the host.
//!
//! `cargo run -- --icount --smp 1 bench [FILTER]` counts instructions. One nanosecond is then one instruction, and all
//! runs have the same results. `cargo run -- --release bench [FILTER]` measures by the clock.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kernel::clock::now;
use kernel::disk::{self, Disk, DiskAccess};
use kernel::gmp_sched::syscall::syscall;
use kernel::mm;
use kernel::platform::Kernel;
use kernel::prelude::*;
use sha2::{Digest as _, Sha256};
use shared::SHARED;

#[path = "../../../gmp-sched/benches/shared/mod.rs"]
mod shared;

/// What the module `shared` requires of this program.
mod platform {
    pub(crate) use kernel::platform::*;

    /// Every workload has as many repetitions as in the Go program.
    pub(crate) const REPETITIONS: u64 = 1;
}

kernel::main!(main);

fn main(arguments: &[&str]) {
    let filter = arguments.first().copied().unwrap_or("");
    println!("gmp-sched cpus {}", num_cpu());
    for (_, workload) in SHARED.iter().chain(OWN).filter(|(name, _)| name.contains(filter)) {
        workload();
    }
    println!("bench done");
}

/// The workloads that only this program has.
const OWN: &[(&str, fn())] = &[
    ("fib27_cut12", fib_parallel),
    ("sleep_overshoot", sleepers),
    ("hog_wakeup", hogs),
    ("syscall_fast", fast_syscalls),
    ("handoff", handoffs),
    ("poll_wake", poll_wakes),
    ("io", disk_reads),
    ("io_stream", disk_streams),
    ("io_sha256", hashing),
    // The last one, because its Gs end only after it has returned, so they would take time from a workload after it.
    ("bytes_per_parked_g", parked),
];

fn report(name: &str, value: f64, unit: &str) {
    println!("bench {name} procs={} {value:.1} {unit}", procs());
}

/// Runs `body`, which performs `operations` operations, and prints the nanoseconds per operation.
fn measure(name: &str, operations: u64, body: impl FnOnce()) {
    let start = now();
    body();
    report(name, (now() - start) as f64 / operations as f64, "ns/op");
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

/// Measures how late sleeps end. 1000 Gs sleep 20 times each, for 1 to 10 ms.
fn sleepers() {
    let sleeping: Vec<_> = (0..1000)
        .map(|g| go(move || (0..20).map(|n| lateness(1 + (g * 7 + n * 3) % 10)).collect::<Vec<_>>()))
        .collect();
    let late = sleeping.into_iter().flat_map(|handle| handle.join().expect("no panic")).collect();
    report_late("sleep_overshoot", late);
}

static STOP: AtomicBool = AtomicBool::new(false);
static SINK: AtomicU64 = AtomicU64::new(0);

/// Measures how late main wakes from sleeps of 1 ms beside hogs.
fn hogs() {
    report_late("hog_wakeup", beside_hogs(|_| lateness(1)));
}

/// Calls `body` 100 times while each P runs a hog (a G that computes and never waits). Returns the results.
fn beside_hogs(body: impl Fn(u64) -> u64) -> Vec<u64> {
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
    let results = (0..100).map(body).collect();
    STOP.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().expect("no panic"));
    results
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

/// Measures a system call that does nothing: entering it and returning from it.
fn fast_syscalls() {
    const ROUNDS: u64 = 100_000;
    measure("syscall_fast", ROUNDS, || (0..ROUNDS).for_each(|_| syscall::<Kernel, _>(|| black_box(()))));
}

/// The number of events in [`handoffs`] and [`poll_wakes`].
const EVENTS: u64 = 1000;

/// When the current event began, by the clock in nanoseconds; 0 if none is under way.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Runs `body` with only one P. `body` returns the sum of the times of [`EVENTS`] events in nanoseconds. Prints their
/// mean.
fn measure_events(name: &str, body: impl FnOnce() -> u64) {
    let procs = set_procs(1).expect("one P is allowed");
    BEGUN.store(0, Ordering::Relaxed);
    let total = body();
    set_procs(procs).expect("as many Ps as before");
    report(name, total as f64 / EVENTS as f64, "ns/op");
}

/// Measures the time from the call in which a G blocks its M to the next run of another G on the same P.
fn handoffs() {
    measure_events("handoff", || {
        let blocking = go(|| {
            for _ in 0..EVENTS {
                BEGUN.store(now(), Ordering::Relaxed);
                disk::delay(Duration::from_micros(20)).expect("memory for another M");
            }
        });
        let mut total = 0;
        while !blocking.is_finished() {
            yield_now();
            let end = now();
            let begun = BEGUN.swap(0, Ordering::Relaxed);
            if begun != 0 {
                total += end - begun;
            }
        }
        total
    });
}

/// Measures the time from the request of an interrupt, which the CPU sends to itself, to the run of the G that waits for
/// it. When the interrupt comes, another G computes on the P.
fn poll_wakes() {
    measure_events("poll_wake", || {
        let waiting = go(|| {
            let wait = |_| {
                disk::wait_for_interrupt();
                now() - BEGUN.swap(0, Ordering::Relaxed)
            };
            (0..EVENTS).map(wait).sum()
        });
        for _ in 0..EVENTS {
            // During this sleep the G begins to wait, and the undisturbed time after the last displacement ends.
            sleep(Duration::from_micros(100));
            BEGUN.store(now(), Ordering::Relaxed);
            disk::interrupt();
            while BEGUN.load(Ordering::Relaxed) != 0 {
                if !kernel::PREEMPTS_LOOPS {
                    yield_now();
                }
            }
        }
        waiting.join().expect("no panic")
    });
}

/// Measures reads of 4 KiB at random offsets of the first disk, in both ways: with one read in flight and with 64, and how
/// long a read takes beside a hog on each P. Without a disk there is nothing to measure.
fn disk_reads() {
    const READS: u64 = 4096;
    let Some(disk) = disk::disks().first() else { return };
    let blocks = disk.len_bytes() / BLOCK as u64;
    assert!(blocks > 0, "the disk has less than {BLOCK} bytes");
    let read_block = move |access, seed| read_block(access, blocks, seed);
    for (way, kind) in [(Disk::blocking as fn(&Disk) -> DiskAccess<'_>, "sync"), (Disk::asynchronous, "async")] {
        for in_flight in [1, 64] {
            measure(&format!("io_{kind}_{in_flight}"), READS, || {
                let read_some = move |g| (0..READS / in_flight).for_each(|n| read_block(way(disk), g * READS + n));
                let reading: Vec<_> = (0..in_flight).map(|g| go(move || read_some(g))).collect();
                reading.into_iter().for_each(|handle| handle.join().expect("no panic"));
            });
        }
        let timed_read = |number| {
            let start = now();
            read_block(way(disk), number);
            now() - start
        };
        report_late(&format!("io_{kind}_hog"), beside_hogs(timed_read));
    }
}

/// Measures reads of the first disk from its beginning to its end, at most of 1 GiB, in both ways. Several Gs read, each
/// the next chunk that no other G reads.
fn disk_streams() {
    const CHUNK: u64 = 1024 * 1024;
    const READERS: usize = 4;
    let Some(disk) = disk::disks().first() else { return };
    let chunks = (disk.len_bytes() / CHUNK).min((1 << 30) / CHUNK);
    for (way, kind) in [(Disk::blocking as fn(&Disk) -> DiskAccess<'_>, "sync"), (Disk::asynchronous, "async")] {
        let next = AtomicU64::new(0);
        let start = now();
        scope(|readers| {
            for _ in 0..READERS {
                readers.go(|| {
                    let mut chunk = vec![0; CHUNK as usize];
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= chunks {
                            break;
                        }
                        assert_eq!(way(disk).read_at(number * CHUNK, &mut chunk), Ok(chunk.len()));
                    }
                });
            }
        });
        report(&format!("io_stream_{kind}"), mib_per_second(chunks * CHUNK, now() - start), "MiB/s");
    }
}

fn mib_per_second(bytes: u64, nanoseconds: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20) / (nanoseconds as f64 / 1e9)
}

/// Measures how fast one G hashes memory. The program `sha256` cannot hash a disk faster.
fn hashing() {
    const CHUNKS: u64 = 1024;
    let chunk = black_box(vec![0x5a; 64 * 1024]);
    let mut state = Sha256::new();
    let start = now();
    (0..CHUNKS).for_each(|_| state.update(&chunk));
    black_box(state.finalize());
    report("io_sha256", mib_per_second(CHUNKS * chunk.len() as u64, now() - start), "MiB/s");
}

/// The length of a read of [`disk_reads`] in bytes.
const BLOCK: usize = 4096;

/// Reads a block of the disk, chosen by `seed`.
fn read_block(access: DiskAccess<'_>, blocks: u64, seed: u64) {
    let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let mut block = vec![0; BLOCK];
    let offset = random % blocks * BLOCK as u64;
    assert_eq!(access.read_at(offset, &mut block), Ok(BLOCK));
}
