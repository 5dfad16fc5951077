//! Locks and the other primitives of `sync` in the simulator. There is a random program for each seed, and its
//! invariants are checked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::JoinError;
use gmp_sched::exit::abandon;
use gmp_sched::sim::{self, Barrier, Condvar, Mutex, Once, Semaphore, Sim, WaitGroup};
use gmp_sched::sync::RawRwLock;
use gmp_sched::sync::lock_api::{MutexGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};
use gmp_sched::sync::readers::{OneCount, Readers, SpreadCounts};

use crate::explore::{Random, explore};
use crate::several::{join_all, spawn_each};

/// Sleeps, blocks, computes, yields or does nothing, at random. So Gs migrate, and their operations overlap.
fn pass_time(random: &mut Random) {
    let time = Duration::from_nanos(random.below(60_000));
    match random.below(10) {
        0 => sim::sleep(time),
        1 => sim::block(time),
        2 => sim::syscall(time / 10),
        3 => sim::work(time * 20),
        4 | 5 => sim::work(time),
        6 | 7 => sim::yield_now(),
        _ => {}
    }
}

/// Returns a short timeout, which is often shorter than the wait would be.
fn patience(random: &mut Random) -> Duration {
    Duration::from_nanos(random.below(100_000))
}

/// Runs `body` in `count` Gs, each with a random sequence of its own, and waits for all of them.
fn in_goroutines(seed: u64, count: u64, body: impl Fn(&mut Random, u64) + Clone + Send + 'static) {
    join_all(spawn_each(0..count, |number| {
        let body = body.clone();
        move || body(&mut Random::new(seed * 31 + number + 1), number)
    }));
}

#[test]
fn mutex_has_one_holder_and_loses_no_waiter() {
    explore(|seed| {
        let mutex = Arc::new((Mutex::new(0u32), AtomicBool::new(false)));
        let entered = Arc::new(AtomicU32::new(0));
        let (shared, count) = (mutex.clone(), entered.clone());
        in_goroutines(seed, 5, move |random, _| {
            for _ in 0..6 {
                let guard = match random.below(6) {
                    0 => shared.0.try_lock(),
                    1 | 2 => shared.0.try_lock_for(patience(random)),
                    _ => Some(shared.0.lock()),
                };
                if let Some(mut guard) = guard {
                    assert!(!shared.1.swap(true, Ordering::Relaxed), "two hold the mutex");
                    *guard += 1;
                    count.fetch_add(1, Ordering::Relaxed);
                    pass_time(random);
                    assert!(shared.1.swap(false, Ordering::Relaxed));
                    match random.below(4) {
                        0 => MutexGuard::unlock_fair(guard),
                        _ => drop(guard),
                    }
                }
                pass_time(random);
            }
        });
        assert_eq!(*mutex.0.try_lock().expect("nobody holds it any more"), entered.load(Ordering::Relaxed));
    });
}

/// Gs that have waited for more than a millisecond lock the mutex in FIFO order.
#[test]
fn starving_mutex_waiters_are_served_in_order() {
    explore(|seed| {
        let mutex = Arc::new(Mutex::new(Vec::new()));
        let held = mutex.lock();
        let waiting: Vec<_> = (0..6)
            .map(|number| {
                let mutex = mutex.clone();
                let handle = sim::go(move || mutex.lock().push(number));
                sim::sleep(Duration::from_micros(300));
                handle
            })
            .collect();
        sim::work(Duration::from_millis(2) + Duration::from_nanos(seed));
        drop(held);
        join_all(waiting);
        assert_eq!(*mutex.lock(), [0, 1, 2, 3, 4, 5]);
    });
}

/// One G unlocks the mutex and at once locks it again, in a loop. Nevertheless, a waiter gets the mutex after a bounded
/// time.
#[test]
fn greedy_mutex_holder_does_not_starve_waiters() {
    explore(|seed| {
        let mutex = Arc::new(Mutex::new(0u32));
        let stop = Arc::new(AtomicBool::new(false));
        let (greedy, stopped) = (mutex.clone(), stop.clone());
        let hog = sim::go(move || {
            while !stopped.load(Ordering::Relaxed) {
                let mut turns = greedy.lock();
                *turns += 1;
                sim::work(Duration::from_millis(1));
            }
        });
        for _ in 0..4 {
            sim::sleep(Duration::from_micros(500 + seed % 1000));
            let (before, turns) = (sim::elapsed(), *mutex.lock());
            let _ = turns;
            let waited = sim::elapsed() - before;
            // The wait takes at most a millisecond until the waiter counts as starving, plus the current critical
            // section. With one P, a slice of the other G is added. With more Ps than CPUs, the granularity of threads
            // is added.
            let config = sim::config();
            let turns = if config.processors > config.cpus { 40 } else { 0 };
            assert!(waited < Duration::from_millis(25 + turns), "waited for {waited:?}");
        }
        stop.store(true, Ordering::Relaxed);
        hog.join().unwrap();
    });
}

/// Counts readers and writers, and checks that a writer runs beside neither a reader nor another writer.
#[derive(Default)]
struct Ledger {
    readers: AtomicU32,
    writers: AtomicU32,
}

impl Ledger {
    fn read(&self, random: &mut Random) {
        self.readers.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.writers.load(Ordering::Relaxed), 0, "a reader beside a writer");
        pass_time(random);
        assert_eq!(self.writers.load(Ordering::Relaxed), 0, "a writer beside a reader");
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }

    fn write(&self, random: &mut Random) {
        assert_eq!(self.writers.fetch_add(1, Ordering::Relaxed), 0, "two writers");
        assert_eq!(self.readers.load(Ordering::Relaxed), 0, "a writer beside a reader");
        pass_time(random);
        assert_eq!(self.readers.load(Ordering::Relaxed), 0, "a reader beside a writer");
        assert_eq!(self.writers.fetch_sub(1, Ordering::Relaxed), 1, "two writers");
    }
}

fn readers_and_writers<R: Readers>(seed: u64) {
    let lock = Arc::new(lock_api::RwLock::<RawRwLock<Sim, R>, Ledger>::new(Ledger::default()));
    let shared = lock.clone();
    in_goroutines(seed, 6, move |random, _| {
        for _ in 0..5 {
            match random.below(12) {
                0..=3 => shared.read().read(random),
                4 => drop(shared.try_read().map(|ledger| ledger.read(random))),
                5 => drop(shared.try_read_for(patience(random)).map(|ledger| ledger.read(random))),
                6 => drop(shared.try_write().map(|ledger| ledger.write(random))),
                7 => drop(shared.try_write_for(patience(random)).map(|ledger| ledger.write(random))),
                8 => {
                    let ledger = shared.write();
                    ledger.write(random);
                    RwLockWriteGuard::downgrade(ledger).read(random);
                }
                9 => {
                    let ledger = shared.upgradable_read();
                    ledger.read(random);
                    let ledger = RwLockUpgradableReadGuard::upgrade(ledger);
                    ledger.write(random);
                    RwLockWriteGuard::downgrade_to_upgradable(ledger).read(random);
                }
                _ => shared.write().write(random),
            }
            pass_time(random);
        }
    });
    assert!(lock.try_write().is_some(), "the lock is still held");
}

#[test]
fn writers_exclude_others_and_no_waiter_is_lost() {
    explore(|seed| {
        if seed % 2 == 0 { readers_and_writers::<OneCount>(seed) } else { readers_and_writers::<SpreadCounts>(seed) }
    });
}

/// Checks that a continuous stream of readers does not starve a writer. With other seeds, checks that a continuous
/// stream of writers does not starve a reader.
fn neither_side_starves<R: Readers>(seed: u64) {
    let lock = Arc::new(lock_api::RwLock::<RawRwLock<Sim, R>, ()>::new(()));
    let stop = Arc::new(AtomicBool::new(false));
    let writers_crowd = seed % 4 < 2;
    let crowd = spawn_each(0..4, |number| {
        let (lock, stop) = (lock.clone(), stop.clone());
        move || {
            let mut random = Random::new(seed + number);
            while !stop.load(Ordering::Relaxed) {
                let time = Duration::from_micros(100 + random.below(200));
                if writers_crowd {
                    let _guard = lock.write();
                    sim::work(time);
                } else {
                    let _guard = lock.read();
                    sim::work(time);
                }
            }
        }
    });
    for _ in 0..3 {
        sim::sleep(Duration::from_micros(200 + seed % 700));
        let before = sim::elapsed();
        if writers_crowd {
            drop(lock.read());
        } else {
            drop(lock.write());
        }
        let waited = sim::elapsed() - before;
        assert!(waited < Duration::from_millis(60), "waited for {waited:?}");
    }
    stop.store(true, Ordering::Relaxed);
    join_all(crowd);
}

#[test]
fn readers_and_writers_do_not_starve_each_other() {
    explore(|seed| {
        if seed % 2 == 0 { neither_side_starves::<OneCount>(seed) } else { neither_side_starves::<SpreadCounts>(seed) }
    });
}

/// A bounded buffer. Each item is taken out once, although some waits time out in between.
#[test]
fn bounded_buffer_of_condvars_loses_no_item() {
    #[derive(Default)]
    struct Buffer {
        items: Mutex<Vec<u64>>,
        not_empty: Condvar,
        not_full: Condvar,
    }
    explore(|seed| {
        const EACH: u64 = 6;
        let buffer = Arc::new(Buffer::default());
        let taken = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let (shared, sums) = (buffer.clone(), taken.clone());
        in_goroutines(seed, 6, move |random, number| {
            for n in 0..EACH {
                let mut items = shared.items.lock();
                if number % 2 == 0 {
                    shared.not_full.wait_while(&mut items, |items| items.len() >= 2);
                    items.push(number * EACH + n);
                    shared.not_empty.notify_one();
                } else {
                    while items.is_empty() {
                        // A waiter that is notified takes the item. A waiter that times out has not been notified, so
                        // no notification is lost.
                        shared.not_empty.wait_timeout(&mut items, patience(random));
                    }
                    sums.0.fetch_add(items.remove(0), Ordering::Relaxed);
                    sums.1.fetch_add(1, Ordering::Relaxed);
                    shared.not_full.notify_one();
                }
                drop(items);
                pass_time(random);
            }
        });
        let put: u64 = [0, 2, 4].iter().flat_map(|number| (0..EACH).map(move |n| number * EACH + n)).sum();
        assert_eq!((taken.0.load(Ordering::Relaxed), taken.1.load(Ordering::Relaxed)), (put, 3 * EACH));
    });
}

/// The number of waits that end by a notification equals the number of waiters that were notified, even if deadlines
/// pass at the same time.
#[test]
fn condvar_wait_ends_once_by_notification_or_deadline() {
    explore(|seed| {
        let pair = Arc::new((Mutex::new(()), Condvar::new()));
        let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)));
        let (shared, totals) = (pair.clone(), counts.clone());
        in_goroutines(seed, 6, move |random, number| {
            for _ in 0..5 {
                if number < 4 {
                    let mut guard = shared.0.lock();
                    let timed_out = shared.1.wait_timeout(&mut guard, patience(random)).timed_out();
                    totals.0.fetch_add(usize::from(!timed_out), Ordering::Relaxed);
                } else {
                    pass_time(random);
                    let notified = match random.below(3) {
                        0 => shared.1.notify_all(),
                        _ => usize::from(shared.1.notify_one()),
                    };
                    totals.1.fetch_add(notified, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed));
    });
}

#[test]
fn wait_group_is_reused_round_after_round() {
    explore(|seed| {
        let group = Arc::new(WaitGroup::new());
        let mut random = Random::new(seed);
        for _ in 0..4 {
            let finished = Arc::new(AtomicU64::new(0));
            let count = 1 + random.below(4);
            for number in 0..count {
                let finished = finished.clone();
                let body = move || {
                    pass_time(&mut Random::new(seed * 7 + number));
                    finished.fetch_add(1, Ordering::Relaxed);
                };
                group.go(body);
            }
            let waiting = spawn_each(0..3, |number| {
                let (group, finished) = (group.clone(), finished.clone());
                let patience = patience(&mut random);
                move || {
                    let all = number == 0 || group.wait_timeout(patience);
                    if number == 0 {
                        group.wait();
                    }
                    assert!(!all || finished.load(Ordering::Relaxed) == count, "returned too early");
                }
            });
            group.wait();
            assert_eq!(finished.load(Ordering::Relaxed), count);
            // All waiters must return before the next round adds Gs to the group.
            join_all(waiting);
        }
    });
}

/// A G that ends without being unwound, as in the kernel, poisons the `Once` whose function it ran. Callers that wait
/// for the function panic, and later callers panic, too.
#[test]
fn once_whose_goroutine_is_abandoned_is_poisoned() {
    explore(|seed| {
        let once = Arc::new(Once::new());
        let callers = spawn_each(0..4, |number| {
            let once = once.clone();
            move || {
                let mut random = Random::new(seed * 31 + number + 1);
                pass_time(&mut random);
                let function = || {
                    pass_time(&mut random);
                    // SAFETY: nothing borrows from the frames of this G.
                    unsafe { abandon::<Sim>(JoinError::Exited) }
                };
                catch_unwind(AssertUnwindSafe(|| once.call_once(function))).is_err()
            }
        });
        let ends: Vec<_> = callers.into_iter().map(|caller| caller.join().ok()).collect();
        let abandoned = ends.iter().filter(|end| end.is_none()).count();
        let panicked = ends.iter().filter(|end| **end == Some(true)).count();
        assert_eq!((abandoned, panicked, once.is_done()), (1, 3, false));
    });
}

#[test]
fn once_runs_once_before_any_caller_returns() {
    explore(|seed| {
        let shared = Arc::new((Once::new(), AtomicU32::new(0)));
        let state = shared.clone();
        in_goroutines(seed, 6, move |random, _| {
            pass_time(random);
            state.0.call_once(|| {
                pass_time(random);
                state.1.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(state.1.load(Ordering::Relaxed), 1);
        });
    });
}

#[test]
fn permits_are_conserved() {
    explore(|seed| {
        const SIZE: u32 = 5;
        let shared = Arc::new((Semaphore::new(SIZE), AtomicU32::new(0)));
        let state = shared.clone();
        in_goroutines(seed, 6, move |random, _| {
            for _ in 0..6 {
                let wanted = 1 + random.below(u64::from(SIZE)) as u32;
                let permit = match random.below(5) {
                    0 => state.0.try_acquire(wanted),
                    1 | 2 => state.0.acquire_timeout(wanted, patience(random)),
                    _ => Some(state.0.acquire(wanted)),
                };
                if let Some(permit) = permit {
                    let taken = state.1.fetch_add(wanted, Ordering::Relaxed) + wanted;
                    assert!(taken <= SIZE, "{taken} permits of {SIZE}");
                    pass_time(random);
                    state.1.fetch_sub(wanted, Ordering::Relaxed);
                    drop(permit);
                }
                pass_time(random);
            }
        });
        assert_eq!(shared.0.available(), SIZE);
        assert!(shared.0.try_acquire(SIZE).is_some());
    });
}

/// Requests for permits are granted in order, even if later requests are for fewer permits.
#[test]
fn permits_are_granted_in_order_of_requests() {
    explore(|_| {
        let shared = Arc::new((Semaphore::new(4), Mutex::new(Vec::new())));
        let held = shared.0.acquire(4);
        let waiting: Vec<_> = [3, 1, 4, 2, 1]
            .into_iter()
            .enumerate()
            .map(|(number, wanted)| {
                let shared = shared.clone();
                let handle = sim::go(move || {
                    let permit = shared.0.acquire(wanted);
                    shared.1.lock().push(number);
                    // The permits are released only after all requests that were granted together have logged their
                    // numbers.
                    sim::sleep(Duration::from_millis(1));
                    drop(permit);
                });
                sim::sleep(Duration::from_millis(1));
                handle
            })
            .collect();
        drop(held);
        join_all(waiting);
        let order = shared.1.lock();
        // The first two requests are granted together, then the third alone, then the last two together. Requests that
        // are granted together log in any order, so only the sums of their numbers are compared: 1, 2 and 7.
        assert_eq!(order[..2].iter().sum::<usize>() * 100 + order[2] * 10 + order[3..].iter().sum::<usize>(), 127);
    });
}

#[test]
fn barrier_holds_until_all_arrive() {
    explore(|seed| {
        const SIZE: u64 = 4;
        let shared = Arc::new((Barrier::new(SIZE as u32), AtomicU64::new(0), AtomicU64::new(0)));
        let state = shared.clone();
        in_goroutines(seed, SIZE, move |random, _| {
            for round in 1..=5 {
                pass_time(random);
                state.1.fetch_add(1, Ordering::Relaxed);
                let leads = state.0.wait().is_leader();
                assert!(state.1.load(Ordering::Relaxed) >= round * SIZE, "passed too early");
                state.2.fetch_add(u64::from(leads), Ordering::Relaxed);
            }
        });
        assert_eq!(shared.2.load(Ordering::Relaxed), 5);
    });
}
