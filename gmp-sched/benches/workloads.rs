//! Benchmarks of the scheduler on operating-system threads. Each workload prints one line, `bench NAME procs=N VALUE
//! UNIT`. Names and parameters are the same as in the Go program with which the results are compared. The module
//! `shared` has the workloads that also run on the machine.
//!
//! `cargo bench -p gmp-sched [-- FILTER]`

use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Instant;

use gmp_sched::context;
use gmp_sched::goroutine::{Goroutine, WaitReason};
use gmp_sched::native::{self, Native, ReadMostlyRwLock, RwLock};
use gmp_sched::park::{park, ready};
use shared::SHARED;
use shared::locks::in_eight;

mod shared;

/// What the module `shared` requires of this program.
mod platform {
    pub(crate) use gmp_sched::native::*;

    /// There are more repetitions than on the machine, because threads are faster and their measurements are noisier.
    pub(crate) const REPETITIONS: u64 = 5;
}

// SAFETY: no G uses a thread-local variable.
const THREADS: native::Threads = unsafe { native::enter() };

fn report(name: &str, processors: usize, value: f64, unit: &str) {
    println!("bench {name} procs={processors} {value:.1} {unit}");
}

/// Runs `body`, which does `operations` operations, and prints the nanoseconds per operation. The caller is a G.
fn measure(name: &str, operations: u64, body: impl FnOnce()) {
    let start = Instant::now();
    body();
    report(name, native::procs(), start.elapsed().as_nanos() as f64 / operations as f64, "ns/op");
}

/// Switches between two contexts, without a scheduler.
fn raw_switch() {
    const SWITCHES: usize = 10_000_000;
    static CONTEXTS: [context::SavedContext; 2] = [const { context::SavedContext::new() }; 2];
    extern "sysv64" fn other(_: usize, _: context::Word, _: usize, _: usize) -> ! {
        loop {
            // SAFETY: context 0 was saved by the switch in the loop below. There is one thread, so nothing else resumes
            // either context.
            unsafe { context::switch(&raw const CONTEXTS[1], &raw const CONTEXTS[0], NOTHING) };
        }
    }
    const NOTHING: context::Transfer = context::Transfer { function: 0, subject: 0, argument: context::Word::uninit() };
    let mut stack = vec![0u128; 4096];
    let top = stack.as_mut_ptr_range().end.expose_provenance();
    // SAFETY: the stack is a local variable that nothing else uses, and it outlives the last switch to it.
    unsafe { context::prepare(&CONTEXTS[1], top, other) };
    let start = Instant::now();
    for _ in 0..SWITCHES / 2 {
        // SAFETY: context 1 was saved by `prepare` or by the switch in `other`. There is one thread, so nothing else
        // resumes either context.
        unsafe { context::switch(&raw const CONTEXTS[0], &raw const CONTEXTS[1], NOTHING) };
    }
    report("raw_switch", 1, start.elapsed().as_nanos() as f64 / SWITCHES as f64, "ns/op");
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
    report("raw_lock", 1, start.elapsed().as_nanos() as f64 / TIMES as f64, "ns/op");
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

/// Eight Gs only lock for reading, with both kinds of reader-writer lock.
fn readers_8g() {
    const EACH: u64 = 1_000_000;
    static ONE: RwLock<usize> = RwLock::new(0);
    static SPREAD: ReadMostlyRwLock<usize> = ReadMostlyRwLock::new(0);
    measure("rwlock_read_8g", 8 * EACH, || in_eight(EACH, || _ = black_box(*ONE.read())));
    measure("read_mostly_read_8g", 8 * EACH, || in_eight(EACH, || _ = black_box(*SPREAD.read())));
}

/// The workloads that only this program has.
const OWN: &[(&str, fn())] = &[("readers_8g", readers_8g), ("ring_parks", ring_of_parks)];

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, body) in [("raw_switch", raw_switch as fn()), ("raw_lock", raw_lock)] {
        if name.contains(&filter) {
            body();
        }
    }
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    for processors in [1, all] {
        for &(_, workload) in SHARED.iter().chain(OWN).filter(|(name, _)| name.contains(&filter)) {
            THREADS.run(processors, workload);
        }
    }
    println!("bench done");
}
