//! Runs the random programs on threads. Two schedulers and a foreign thread, which belongs to neither scheduler, use
//! the same objects.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use std::{panic, thread};

use gmp_sched::native::{self, Native};
use gmp_sched::scheduler::Scheduler;
use thread_tests::THREADS;

use crate::value::broken;

#[path = "program/mod.rs"]
mod program;

/// The names through which the programs use their platform.
mod platform {
    use std::sync::mpsc;
    use std::time::Duration;

    use gmp_sched::chan::{RecvError, SendError};
    use gmp_sched::device_signals::Signal;

    pub(super) use gmp_sched::native::{
        Barrier, Builder, CancelHandle, Chan, Condvar, Context, ErrorGroup, JoinHandle, Lazy, Limit, Mutex, Once,
        OnceCell, Pool, ReadMostlyRwLock, Receiver, RwLock, RwLockWriteGuard, Semaphore, Sender, SingleFlight,
        ThisPlatform, Ticker, Timer, WaitGroup, after, after_func, block_on, go, goexit, now, scope, set_procs, sleep,
        stop_the_world, synctest, syscall, try_after_func, try_blocking, try_lock_thread, try_pull, try_scope,
        yield_now,
    };

    use crate::value::{Value, broken};

    /// The size of a stack that is not a standard stack.
    pub(super) const STACK_BYTES: usize = 256 * 1024;

    /// Raises `signal` now, because there are no devices here.
    pub(super) fn raise_later(signal: &'static Signal<ThisPlatform>, _: Duration) {
        signal.raise();
    }

    pub(super) fn blocking_send(sender: &Sender<Value>, value: Value) -> Result<(), SendError<Value>> {
        sender.blocking_send(value)
    }

    pub(super) fn blocking_recv(receiver: &Receiver<Value>) -> Result<Value, RecvError> {
        receiver.blocking_recv()
    }

    /// Sends closures to a foreign thread, which runs them.
    #[derive(Clone)]
    pub(super) struct Outside(pub(super) mpsc::Sender<Box<dyn FnOnce() + Send>>);

    impl Outside {
        pub(super) fn call(&self, body: impl FnOnce() + Send + 'static) {
            if self.0.send(Box::new(body)).is_err() {
                broken("the foreign thread has ended");
            }
        }
    }
}

/// A program takes some milliseconds. If it runs for longer than this duration, it hangs.
const HANGS: Duration = Duration::from_secs(120);

/// The schedulers of the current program, for the report of a hang.
static SCHEDULERS: Mutex<[Option<&Scheduler<Native>>; 2]> = Mutex::new([None; 2]);

/// Runs one program on two schedulers.
fn run(seed: u64) {
    let (outside, work) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let shared = Arc::new(program::Shared::new(platform::Outside(outside)));
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
                    // Waits until the Gs of the other scheduler have ended, too, so that a lost G of that scheduler is
                    // detected.
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
    let values = shared.values.clone();
    values.become_harmless();
    // The foreign thread ends when all senders of its closures have been dropped.
    drop(Arc::try_unwrap(shared).unwrap_or_else(|_| broken("a G that has ended keeps what it shared")));
    thread_outside.join().expect("it catches every panic");
    // Some values are never dropped, because a handle was leaked or a panic prevented the drop. So a positive number of
    // values that are left is no error. If the number is negative, some values were dropped twice.
    let left = values.count();
    if left < 0 {
        broken(&format!("{left} values are left: some were dropped twice"));
    }
}

/// The value that `current` in [`watch`] has while no program runs.
const NONE: u64 = u64::MAX;

/// Ends the process if one program runs for too long. `current` contains the seed of the program.
fn watch(current: Arc<AtomicU64>) {
    thread::spawn(move || {
        loop {
            let seed = current.load(Ordering::Relaxed);
            thread::sleep(HANGS);
            if seed != NONE && current.load(Ordering::Relaxed) == seed {
                for scheduler in SCHEDULERS.lock().expect("no panic under it").iter().flatten() {
                    eprintln!("{}", scheduler.scheddetail());
                }
                broken(&format!("the program on threads with GMP_FUZZ_SEED={seed} hangs"));
            }
        }
    });
}

#[test]
fn random_safe_programs_break_no_invariant_on_threads() {
    native::poison_dead_stacks();
    let current = Arc::new(AtomicU64::new(NONE));
    watch(current.clone());
    crate::for_each_seed(60, &[], |seed| {
        current.store(seed, Ordering::Relaxed);
        run(seed);
    });
    // All programs have ended, so the thread of `watch` has no program to report.
    current.store(NONE, Ordering::Relaxed);
}
