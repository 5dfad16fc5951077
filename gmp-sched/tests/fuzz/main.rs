//! A fuzz test of the public interface: random programs of safe calls, many of them misuses, by two schedulers and a foreign
//! thread on the same objects. No value may be sent or dropped twice, overwritten or lost, and no wait may hang.
//!
//! `GMP_FUZZ_SEED=17` repeats one program (on threads, so not its exact course). `GMP_FUZZ_SECONDS=600` runs programs for so
//! long.
#![cfg(not(gmp_loom))]
#![deny(unsafe_code)]

#[path = "../threads/entered.rs"]
mod entered;
mod program;
mod value;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, panic, thread};

use entered::THREADS;
use gmp_sched::native::{self, Native};
use gmp_sched::scheduler::Scheduler;
use program::{Outside, Shared};
use value::broken;

/// Number of programs in an ordinary run.
const PROGRAMS: u64 = 60;

/// A program that has not ended by then hangs: it takes some milliseconds.
const HANGS: Duration = Duration::from_secs(120);

/// The schedulers of the current program, for the report of a hang.
static SCHEDULERS: Mutex<[Option<&Scheduler<Native>>; 2]> = Mutex::new([None; 2]);

/// Runs one program on two schedulers.
fn run(seed: u64) {
    let (outside, work) = mpsc::channel::<Outside>();
    let shared = Arc::new(Shared::new(outside));
    let thread_outside = thread::spawn(move || {
        for body in work {
            let _ = panic::catch_unwind(panic::AssertUnwindSafe(body));
        }
    });
    let schedulers: Vec<_> = (0..2)
        .map(|number| {
            let shared = shared.clone();
            thread::spawn(move || {
                let processors = 1 + (seed as usize + number) % 4;
                THREADS.run_with(processors, move |scheduler| {
                    SCHEDULERS.lock().expect("no panic under it")[number] = Some(scheduler);
                    for root in 0..6 {
                        program::start(&shared, seed.wrapping_mul(97) + 13 * root + number as u64, 20);
                    }
                    // Until the Gs of the other scheduler have ended, too, so that a G lost there is detected here.
                    while shared.running.load(Ordering::Acquire) != 0 {
                        native::sleep(Duration::from_micros(200));
                    }
                });
            })
        })
        .collect();
    for scheduler in schedulers {
        scheduler.join().expect("main does not panic");
    }
    let alive = shared.alive.clone();
    // The foreign thread ends when no G can give it work any more.
    drop(Arc::try_unwrap(shared).unwrap_or_else(|_| broken("a G that has ended keeps what it shared")));
    thread_outside.join().expect("it catches every panic");
    // Some may be left: those of leaked handles, and those of calls that panicked with them.
    let left = alive.load(Ordering::Relaxed);
    if left < 0 {
        broken(&format!("{left} values are left: some were dropped twice"));
    }
}

#[test]
fn random_safe_programs_break_no_invariant() {
    let seconds = env::var("GMP_FUZZ_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let first = env::var("GMP_FUZZ_SEED").ok().map(|text| text.parse().expect("a number"));
    // Their panics are part of the programs, and too many to print.
    panic::set_hook(Box::new(|_| {}));
    let current = Arc::new(AtomicU64::new(first.unwrap_or(0)));
    let watched = current.clone();
    thread::spawn(move || {
        loop {
            let seed = watched.load(Ordering::Relaxed);
            thread::sleep(HANGS);
            if watched.load(Ordering::Relaxed) == seed {
                for scheduler in SCHEDULERS.lock().expect("no panic under it").iter().flatten() {
                    eprintln!("{}", scheduler.scheddetail());
                }
                broken(&format!("the program with GMP_FUZZ_SEED={seed} hangs"));
            }
        }
    });
    let start = Instant::now();
    let is_over = |seed: u64| match (first, seconds) {
        (Some(first), _) => seed != first,
        (None, Some(seconds)) => start.elapsed() >= Duration::from_secs(seconds),
        (None, None) => seed == PROGRAMS,
    };
    for seed in first.unwrap_or(0).. {
        if is_over(seed) {
            break;
        }
        current.store(seed, Ordering::Relaxed);
        run(seed);
    }
    println!("{} programs", current.load(Ordering::Relaxed) + 1 - first.unwrap_or(0));
}
