//! Benchmarks of the scheduler: `bench [--json] [--list] [procs=N,...] [FILTER]...`
//!
//! Each result is a line `bench NAME procs=N VALUE UNIT`. The Go program with which the results are compared uses the
//! same names and parameters. The module `shared` has the workloads that also run on threads of the host. The command
//! `cargo run -- compare` runs both programs and compares the results.
//!
//! `cargo run -- --icount --smp 1 bench` counts instructions. With this command, one nanosecond is one instruction, and
//! all runs have the same results. `cargo run -- --release bench` measures by the clock.

#![no_std]
#![cfg_attr(not(test), no_main)]

extern crate alloc;

mod net;

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

use kernel::clock::now;
use kernel::disk::{self, Disk, DiskAccess};
use kernel::gmp_sched::syscall::syscall;
use kernel::mm;
use kernel::platform::Kernel;
use kernel::prelude::*;
use raw_cpuid::CpuId;
use sha2::{Digest as _, Sha256};
use shared::late::beside_hogs;
use shared::report::{Setting, begin, end, measure, report, report_late};
use shared::{Arguments, Workload, workloads};

#[path = "../../../../gmp-sched/benches/shared/mod.rs"]
mod shared;

/// What the module `shared` requires of this program.
mod platform {
    pub(crate) use kernel::clock::now as now_ns;
    use kernel::gmp_sched::platform::Platform as _;
    pub(crate) use kernel::platform::*;
    pub(crate) use kernel::{mm, println};

    /// A factor for the repetitions of the workloads. It is 1, so every workload has as many repetitions as in the Go
    /// program with `scale=0.2`.
    pub(crate) const REPETITIONS: u64 = 1;

    pub(crate) const PARKED: usize = 100_000;

    /// Returns the numbers of the M and the CPU on which the caller runs.
    pub(crate) fn place() -> [usize; 2] {
        let thread = Kernel::current_machine().map_or(0, |machine| machine.id().get());
        [thread as usize, kernel::percpu::current().index()]
    }

    /// Frees cached memory, and returns how many bytes of memory are in use afterwards. Returns `None` on the host,
    /// where the kernel does not know this number.
    pub(crate) fn memory_in_use() -> Option<usize> {
        if !cfg!(gmp_machine) {
            return None;
        }
        mm::free_cached_memory();
        let usage = mm::usage();
        Some(usage.total - usage.free)
    }
}

kernel::main!(main);

/// The exit status if the arguments are wrong.
const WRONG_USE: i32 = 64;

fn main(words: &[&str]) -> i32 {
    let arguments = match Arguments::parse(words.iter().copied(), workloads(OWN)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("bench: {message}");
            return WRONG_USE;
        }
    };
    if arguments.list {
        arguments.workloads.iter().for_each(|(name, _)| println!("{name}"));
        return 0;
    }
    begin(&setting(), arguments.json);
    let all = [procs()];
    for &procs in if arguments.procs.is_empty() { &all[..] } else { &arguments.procs } {
        if let Err(error) = set_procs(procs) {
            eprintln!("bench: procs={procs}: {error}");
            return WRONG_USE;
        }
        arguments.workloads.iter().for_each(|(_, workload)| workload());
    }
    end();
    0
}

fn setting() -> Setting {
    let memory_mib = cfg!(gmp_machine).then(|| mm::usage().total >> 20);
    let brand = CpuId::new().get_processor_brand_string();
    let processor = brand.map_or_else(|| "unknown processor".to_owned(), |brand| brand.as_str().trim().to_owned());
    Setting { cpus: num_cpu(), memory_mib, processor }
}

/// The workloads that only this program has.
const OWN: &[Workload] = &[
    ("syscall_fast", fast_syscalls),
    ("handoff", handoffs),
    ("poll_wake", poll_wakes),
    ("blocking_hog", blocking_calls_beside_hogs),
    ("io", disk_reads),
    ("io_stream", disk_streams),
    ("io_sha256", hashing),
    ("net_connect", net::connections),
    ("net_echo", net::echoes),
    ("net_poll_wake", net::wakes),
    ("net_stream", net::stream),
    ("net_request", net::requests),
];

/// Measures a system call that does nothing: entering it and returning from it.
fn fast_syscalls() {
    const ROUNDS: u64 = 100_000;
    measure("syscall_fast", ROUNDS, || (0..ROUNDS).for_each(|_| syscall::<Kernel, _>(|| black_box(()))));
}

/// The number of events in [`handoffs`] and [`poll_wakes`].
const EVENTS: u64 = 1000;

/// When the current event began, by the clock in nanoseconds; 0 if none is under way.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Runs `body` with only one P. `body` returns the sum of the times of [`EVENTS`] events in nanoseconds. Prints the
/// mean time of an event.
fn measure_events(name: &str, body: impl FnOnce() -> u64) {
    let procs = set_procs(1).expect("one P is allowed");
    BEGUN.store(0, Ordering::Relaxed);
    let total = body();
    set_procs(procs).expect("as many Ps as before");
    report(name, total as f64 / EVENTS as f64, "ns/op");
}

/// Measures the time from the call in which a G blocks its M until another G runs on the same P.
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
            // The clock is read last. If it were read first, the other G could displace this one in between, and begin
            // its next call later than the time that was read.
            let begun = BEGUN.swap(0, Ordering::Relaxed);
            if begun != 0 {
                total += now() - begun;
            }
        }
        total
    });
}

/// Measures the time from an interrupt until the G that waits for it runs. The CPU sends the interrupt to itself, and
/// the measurement begins then. When the interrupt comes, another G computes on the P.
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
            // During this sleep the G `waiting` begins to wait, and the undisturbed time after the last displacement
            // ends.
            sleep(Duration::from_micros(100));
            BEGUN.store(now(), Ordering::Relaxed);
            disk::interrupt();
            while BEGUN.load(Ordering::Relaxed) != 0 {
                // On the host no interrupt lets the other G run.
                if !cfg!(gmp_machine) {
                    yield_now();
                }
            }
        }
        waiting.join().expect("no panic")
    });
}

/// Measures the delay from the end of a call that blocks its M for 1 ms until the calling G runs again. Meanwhile each
/// P runs a hog (a G that computes and never waits).
fn blocking_calls_beside_hogs() {
    const CALL: Duration = Duration::from_millis(1);
    let lateness = |_| {
        let start = now();
        disk::delay(CALL).expect("memory for another M");
        now() - start - CALL.as_nanos() as u64
    };
    report_late("blocking_hog", beside_hogs(lateness));
}

/// Measures reads of 4 KiB at random offsets of the first disk: with one read in flight, with 64 reads in flight, and
/// with one read while each P runs a hog (a G that computes and never waits). All this is measured both for blocking
/// system calls and for asynchronous reads. Without a disk there is nothing to measure.
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

/// Measures reads of the whole first disk, or of its first GiB if it is larger, both by blocking system calls and
/// asynchronously. Several Gs read at the same time. Each of them repeatedly takes the next chunk that no other G has
/// taken.
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

/// The length in bytes of each read of [`disk_reads`].
const BLOCK: usize = 4096;

/// Reads one of the `blocks` blocks of the disk. `seed` determines which one.
fn read_block(access: DiskAccess<'_>, blocks: u64, seed: u64) {
    let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let mut block = vec![0; BLOCK];
    let offset = random % blocks * BLOCK as u64;
    assert_eq!(access.read_at(offset, &mut block), Ok(BLOCK));
}
