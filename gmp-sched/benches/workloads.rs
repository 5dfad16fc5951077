//! Benchmarks of the scheduler on operating-system threads. Each result is a line, `bench NAME procs=N VALUE UNIT`; a
//! few workloads have several results. The module `shared` has the workloads that also run in the kernel, and says
//! which of them can be compared with a Go program.
//!
//! The command is `cargo bench -p gmp-sched [-- [--json] [--list] [procs=N,...] [FILTER]...]`. Without `procs`, the
//! workloads run with one P and with as many Ps as there are CPUs.

// The module `shared` is also compiled for the kernel, which has no `std`, so it imports types such as `Vec` from
// `alloc`. With the prelude of `std`, these imports would be redundant. Therefore this program does without that
// prelude, too.
#![no_std]

extern crate alloc;
extern crate std;

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use std::hint::black_box;
use std::process::ExitCode;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Instant;
use std::{eprintln, fs, println};

use gmp_sched::context;
use gmp_sched::goroutine::{Goroutine, WaitReason};
use gmp_sched::native::{self, Native, ReadMostlyRwLock, RwLock};
use gmp_sched::park::{park, ready};
use shared::locks::in_eight;
use shared::report::{Setting, begin, end, measure, report};
use shared::{Arguments, Workload, workloads};

mod shared;

/// What the module `shared` requires of this program.
mod platform {
    use std::fs;
    use std::sync::LazyLock;
    use std::time::Instant;

    pub(crate) use gmp_sched::native::*;
    use gmp_sched::platform::Platform as _;
    pub(crate) use std::println;

    /// There are more repetitions than in the kernel, because threads are faster and their measurements are noisier.
    pub(crate) const REPETITIONS: u64 = 5;

    /// The number is limited, because before Linux 6.13 each stack takes two of the 65,530 mappings of a process.
    pub(crate) const PARKED: usize = 20_000;

    /// The clock in nanoseconds.
    pub(crate) fn now_ns() -> u64 {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed().as_nanos() as u64
    }

    /// The numbers of the M and the CPU on which the caller runs.
    pub(crate) fn place() -> [usize; 2] {
        let thread = Native::current_machine().map_or(0, |machine| machine.id().get());
        // SAFETY: the call has no preconditions.
        let cpu = unsafe { libc::sched_getcpu() };
        [thread as usize, cpu.unsigned_abs() as usize]
    }

    /// The physical memory of this process.
    pub(crate) fn memory_in_use() -> Option<usize> {
        let pages = fs::read_to_string("/proc/self/statm").ok()?;
        Some(pages.split(' ').nth(1)?.parse::<usize>().ok()? * 4096)
    }
}

// SAFETY: the Gs use thread-local variables only within single calls of the standard library, such as `println`.
const THREADS: native::Threads = unsafe { native::enter() };

/// Switches between two contexts, without a scheduler.
fn raw_switch() {
    const SWITCHES: usize = 10_000_000;
    static CONTEXTS: [context::SavedContext; 2] = [const { context::SavedContext::new() }; 2];
    struct Other;
    impl context::Start for Other {
        extern "sysv64" fn arrive(_: usize, _: context::Word, _: usize) {}
        extern "sysv64" fn run(_: usize) -> ! {
            loop {
                // SAFETY: context 0 was saved by the switch in the loop below. Only one thread at a time runs
                // `raw_switch`, so nothing else uses the two contexts.
                unsafe { context::switch(&raw const CONTEXTS[1], &raw const CONTEXTS[0], NOTHING) };
            }
        }
    }
    const NOTHING: context::Transfer = context::Transfer { function: 0, subject: 0, argument: context::Word::uninit() };
    let mut stack = vec![0u128; 4096];
    let top = stack.as_mut_ptr_range().end.expose_provenance();
    // SAFETY: the stack is a local variable that nothing else uses, and it outlives the last switch to it. Its end is
    // aligned to 16 bytes, as its elements are. Nothing else uses the context.
    unsafe { context::prepare::<Other>(&CONTEXTS[1], top) };
    let start = Instant::now();
    for _ in 0..SWITCHES / 2 {
        // SAFETY: context 1 was made by `prepare` or saved by the switch in `Other`. Only one thread at a time runs
        // `raw_switch`, so nothing else uses the two contexts.
        unsafe { context::switch(&raw const CONTEXTS[0], &raw const CONTEXTS[1], NOTHING) };
    }
    report("raw_switch", start.elapsed().as_nanos() as f64 / SWITCHES as f64, "ns/op");
    black_box(&stack);
}

/// Measures the two atomic instructions that acquire and release an uncontended lock.
fn raw_lock() {
    const TIMES: usize = 20_000_000;
    static WORD: AtomicU32 = AtomicU32::new(0);
    let start = Instant::now();
    for _ in 0..TIMES {
        assert_eq!(WORD.fetch_or(1, Ordering::Acquire) & 1, 0);
        WORD.store(0, Ordering::Release);
    }
    report("raw_lock", start.elapsed().as_nanos() as f64 / TIMES as f64, "ns/op");
}

/// Readies 1000 Gs one after the other in a ring. Each G readies its successor, without channels.
fn ring_of_parks() {
    const SIZE: usize = 1000;
    const HOPS: usize = 1_000_000;
    static PARKED: [AtomicPtr<Goroutine<Native>>; SIZE] = [const { AtomicPtr::new(ptr::null_mut()) }; SIZE];
    fn wait_at(place: usize) {
        park::<Native>(WaitReason::Parked, |_, me| {
            PARKED[place].store(ptr::from_ref(me).cast_mut(), Ordering::Release);
            true
        });
    }
    fn wake_at(place: usize) {
        loop {
            let parked = PARKED[place].swap(ptr::null_mut(), Ordering::Acquire);
            // SAFETY: the address is null or was stored by the commit of a G, and Gs are never freed.
            if let Some(parked) = unsafe { parked.as_ref() } {
                // SAFETY: the G is parked, because the commit of its park stored the address. The swap returns the
                // address only once, so no other code readies the G.
                return unsafe { ready(parked) };
            }
            // The successor has not stored its address yet, so let it run.
            native::yield_now();
        }
    }
    measure("ring_parks", HOPS as u64, || {
        let all: Vec<_> = (0..SIZE)
            .map(|place| {
                native::go(move || {
                    for hop in (place..HOPS).step_by(SIZE) {
                        wait_at(place);
                        if hop + 1 < HOPS {
                            wake_at((place + 1) % SIZE);
                        }
                    }
                })
            })
            .collect();
        wake_at(0);
        all.into_iter().for_each(|one| one.join().unwrap());
    });
}

/// Eight Gs lock a reader-writer lock for reading, and no G locks it for writing. Measures both kinds of such locks.
fn readers_8g() {
    const EACH: u64 = 1_000_000;
    static ONE: RwLock<usize> = RwLock::new(0);
    static SPREAD: ReadMostlyRwLock<usize> = ReadMostlyRwLock::new(0);
    measure("rwlock_read_8g", 8 * EACH, || in_eight(EACH, || _ = black_box(*ONE.read())));
    measure("read_mostly_read_8g", 8 * EACH, || in_eight(EACH, || _ = black_box(*SPREAD.read())));
}

/// The workloads that only this program has. The first two use no scheduler, so the number of Ps has no effect on them.
const OWN: &[Workload] =
    &[("raw_switch", raw_switch), ("raw_lock", raw_lock), ("readers_8g", readers_8g), ("ring_parks", ring_of_parks)];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match Arguments::parse(words.iter().map(String::as_str), workloads(OWN)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("bench: {message}");
            return ExitCode::from(64);
        }
    };
    if arguments.list {
        arguments.workloads.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    native::set_preemption(true);
    begin(&Setting { cpus, memory_mib: None, processor: processor() }, arguments.json);
    let both = [1, cpus];
    let default = if cpus == 1 { &both[..1] } else { &both };
    for &procs in if arguments.procs.is_empty() { default } else { &arguments.procs } {
        arguments.workloads.iter().for_each(|&&(_, workload)| THREADS.run(procs, workload));
    }
    end();
    ExitCode::SUCCESS
}

/// The name of the processor, as Linux reports it.
fn processor() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    model.map_or_else(|| "unknown processor".into(), |(_, model)| model.to_owned())
}
