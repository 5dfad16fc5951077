//! Contexts in the simulator: concurrent cancellations, deadlines and wakeups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gmp_sched::cancel::ContextError;
use gmp_sched::chan::{RecvTimeoutError, SendTimeoutError};
use gmp_sched::select::{Select, recv, send};
use gmp_sched::sim::{self, Chan, Condvar, Context, Limit, Mutex, RwLock, Semaphore, Timer, WaitGroup, go, now};
use gmp_sched::sync::{LimitedCondvar, LimitedMutex, LimitedRwLock};

use crate::anything::microseconds;
use crate::explore::{Random, explore};
use crate::several::{join_all, spawn_each};

/// The objects for which Gs wait.
struct Things {
    chan: Chan<u64>,
    semaphore: Semaphore,
    mutex: Mutex<()>,
    lock: RwLock<()>,
    changed: Condvar,
    group: WaitGroup,
}

/// Waits for a timer or one of `things`, but no longer than `limit` allows.
fn wait_for_something(
    what: u64,
    timer: &Timer,
    things: &Things,
    limit: Limit<'_>,
    work: impl FnOnce(),
) -> Result<(), ContextError> {
    match what {
        0 => timer.wait_until(limit).map(|tick| assert!(tick <= now())),
        1 => things.semaphore.acquire_until(1, limit).map(|_permit| work()),
        2 => things.mutex.lock_until(limit).map(|_guard| work()),
        3 => things.lock.read_until(limit).map(|_guard| work()),
        4 => things.lock.write_until(limit).map(|_guard| work()),
        5 => things.changed.wait_limited(&mut things.mutex.lock(), limit),
        6 => things.group.wait_until(limit),
        7 => match things.chan.sender().send_until(1, limit) {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Timeout(_)) => Err(ContextError::DeadlineExceeded),
            Err(SendTimeoutError::Canceled(_)) => Err(ContextError::Canceled),
            Err(SendTimeoutError::Closed(_)) => unreachable!("nobody closes it"),
        },
        8 => match things.chan.receiver().recv_until(limit) {
            Ok(_) => Ok(()),
            Err(RecvTimeoutError::Timeout) => Err(ContextError::DeadlineExceeded),
            Err(RecvTimeoutError::Canceled) => Err(ContextError::Canceled),
            Err(RecvTimeoutError::Closed) => unreachable!("nobody closes it"),
        },
        _ => {
            let (mut tick, mut send) = (recv(timer), send(things.chan.sender(), 2));
            Select::new(&mut [tick.case(), send.case()]).wait_until(limit).map(drop)
        }
    }
}

/// Gs wait for various objects, with contexts from anywhere in a tree, while parts of the tree are cancelled. Each wait
/// ends for the reason that it reports, no waiter is lost, and the error of a context never changes.
#[test]
fn every_limited_wait_ends_for_a_true_reason() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let mut tree = vec![Context::background().with_cancel()];
        for _ in 0..6 {
            let above = tree[random.below(tree.len() as u64) as usize].0.clone();
            tree.push(match random.below(3) {
                0 => above.with_timeout(microseconds(random.below(300))),
                1 => above.with_value(random.below(9)).with_cancel(),
                _ => above.with_cancel(),
            });
        }
        let things = Arc::new(Things {
            chan: Chan::new(seed as usize % 2),
            semaphore: Semaphore::new(1),
            mutex: Mutex::new(()),
            lock: RwLock::new(()),
            changed: Condvar::new(),
            group: WaitGroup::new(),
        });
        things.group.add(1);
        let waiting = spawn_each(0..8, |number| {
            let context = tree[random.below(tree.len() as u64) as usize].0.clone();
            let mut random = Random::new(seed * 23 + number);
            let things = things.clone();
            move || {
                let timer = Timer::new(microseconds(random.below(200)));
                for _ in 0..4 {
                    let deadline = now() + microseconds(random.below(400));
                    let limit = Limit::from(&context).and(deadline);
                    let before = context.err();
                    let pause = microseconds(random.below(30));
                    let waited = wait_for_something(random.below(10), &timer, &things, limit, || sim::sleep(pause));
                    match waited {
                        Ok(()) => {}
                        Err(ContextError::Canceled) => assert_eq!(context.err(), Some(ContextError::Canceled)),
                        Err(ContextError::DeadlineExceeded) => {
                            assert!(now() >= deadline.min(context.deadline().unwrap_or(deadline)));
                        }
                    }
                    assert!(before.is_none() || before == context.err());
                    things.changed.notify_one();
                    timer.reset(microseconds(random.below(200)));
                    sim::work(microseconds(random.below(10)));
                }
                context.wait()
            }
        });
        for _ in 0..4 {
            let (context, cancel) = &tree[random.below(tree.len() as u64) as usize];
            sim::sleep(microseconds(random.below(80)));
            cancel.cancel();
            assert!(context.err().is_some());
        }
        things.group.done();
        tree[0].1.cancel();
        assert!(tree.iter().all(|(context, _)| context.err().is_some()));
        join_all(waiting);
        // The waits that were ended by their limit have left no waiter and no lock behind.
        assert!(things.semaphore.try_acquire(1).is_some() && things.lock.try_write().is_some());
        assert!(things.mutex.try_lock().is_some() && !things.changed.notify_one());
    });
}

/// A function that is registered with a context (`after_func`) runs once when the context ends, unless the function was
/// stopped before. The context ends by a cancellation, by its deadline, or by both at about the same time.
#[test]
fn context_function_runs_once_unless_stopped() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let ran = Arc::new(AtomicUsize::new(0));
        let mut expected = 0;
        for _ in 0..8 {
            let (context, cancel) = match random.below(2) {
                0 => Context::background().with_timeout(microseconds(random.below(60))),
                _ => Context::background().with_cancel(),
            };
            let (counter, seen) = (ran.clone(), context.clone());
            let function = context.after_func(move || {
                assert!(seen.err().is_some());
                counter.fetch_add(1, Ordering::Relaxed);
            });
            let canceller = go(move || {
                sim::work(microseconds(seed % 50));
                cancel.cancel();
            });
            sim::work(microseconds(random.below(60)));
            if random.below(2) == 0 {
                expected += usize::from(!function.stop());
            } else {
                expected += 1;
            }
            canceller.join().unwrap();
        }
        while ran.load(Ordering::Relaxed) < expected {
            sim::sleep(microseconds(10));
        }
        sim::sleep(microseconds(200));
        assert_eq!(ran.load(Ordering::Relaxed), expected);
    });
}

/// Contexts that are derived from a context during its cancellation are cancelled, too.
#[test]
fn context_derived_during_cancellation_is_cancelled() {
    explore(|seed| {
        let (top, cancel) = Context::background().with_cancel();
        let makers = spawn_each(0..3, |maker| {
            let mut above = top.clone();
            let mut random = Random::new(seed * 29 + maker);
            move || {
                let mut made = Vec::new();
                for _ in 0..6 {
                    let (below, handle) = above.with_cancel();
                    if random.below(2) == 0 {
                        above = below.clone();
                    }
                    made.push((below, handle));
                    if random.below(3) == 0 {
                        drop(made.remove(0));
                    }
                }
                for (context, _) in &made {
                    context.wait();
                }
            }
        });
        sim::work(microseconds(seed % 40));
        cancel.cancel();
        join_all(makers);
    });
}
