//! Misuses and panics in `sync`, which are tested on threads, because a panic of a G on threads ends only that G. Further,
//! the documented sizes, the capacity of pools, and what the callers of a single flight share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::panics::panic_of;
use crate::several::{join_all, spawn_each};
use gmp_sched::JoinError;
use gmp_sched::native::{
    self, Barrier, Condvar, Mutex, Once, OnceCell, Pool, Receiver, RwLock, Semaphore, Sender, SingleFlight, WaitGroup,
};
use gmp_sched::sync::lock_api::{GuardSend, RawMutex as _, RawRwLock as _};
use gmp_sched::sync::readers::{OneCount, Readers, SpreadCounts};
use gmp_sched::sync::{Fetched, RawMutex, RawRwLock};
use thread_tests::THREADS;

/// Checks the sizes that the documentation states.
#[test]
fn sizes_are_as_documented() {
    assert_eq!((size_of::<Mutex<()>>(), size_of::<RwLock<()>>(), size_of::<Condvar>()), (32, 80, 32));
    assert_eq!((size_of::<WaitGroup>(), size_of::<Semaphore>()), (40, 32));
    assert_eq!((size_of::<Once>(), size_of::<Barrier>()), (40, 40));
}

#[test]
fn misuse_panics_with_gos_messages() {
    let group = WaitGroup::new();
    assert_eq!(panic_of(|| group.done()), "sync: negative WaitGroup counter");
    // The failed call has changed nothing.
    group.add(1);
    group.done();
    group.wait();
    for more in [1 << 31, u32::MAX] {
        assert_eq!(panic_of(|| group.add(more)), "sync: WaitGroup counter overflows");
        group.add(2);
        assert_eq!(panic_of(|| group.add(more - 1)), "sync: WaitGroup counter overflows");
        // The refused addition has not changed the counter.
        (0..2).for_each(|_| group.done());
        group.wait();
    }
    group.add(i32::MAX as u32);
    assert_eq!(panic_of(|| group.add(1)), "sync: WaitGroup counter overflows");
    let mutex = RawMutex::<native::Native>::new();
    // SAFETY: the contract of `unlock` is violated on purpose, because this is the misuse under test: the mutex is not
    // held. It guards no data, so nothing can be accessed wrongly.
    let unlock = || unsafe { mutex.unlock(GuardSend::new()) };
    assert_eq!(panic_of(unlock), "sync: unlock of unlocked mutex");
    unlock_for_reading_is_checked::<OneCount>();
    unlock_for_reading_is_checked::<SpreadCounts>();
    let semaphore = Semaphore::new(2);
    assert_eq!(panic_of(|| semaphore.release(1)), "semaphore: released more than held");
    THREADS.run(1, || {
        assert_eq!(panic_of(|| drop(Semaphore::new(2).acquire(3))), "semaphore: 3 of 2 permits");
    });
}

fn unlock_for_reading_is_checked<R: Readers>() {
    let lock = RawRwLock::<native::Native, R>::new();
    let slot = lock.lock_shared();
    // SAFETY: the first call unlocks the lock. The contract of the later calls is violated on purpose, because this is
    // the misuse under test: the lock is free. It guards no data, so nothing can be accessed wrongly.
    let unlock = || unsafe { lock.unlock_shared(slot) };
    unlock();
    for _ in 0..2 {
        assert_eq!(panic_of(unlock), "sync: RUnlock of unlocked RWMutex");
    }
    assert!(lock.try_lock_exclusive().is_some(), "the refused calls have changed nothing");
    assert_eq!(panic_of(unlock), "sync: RUnlock of unlocked RWMutex");
    assert!(lock.try_lock_shared().is_none(), "the refused call has changed nothing");
}

#[test]
fn condvar_with_two_mutexes_panics() {
    THREADS.run(1, || {
        let shared = Arc::new((Mutex::new(()), Condvar::new(), Mutex::new(())));
        let waiting = {
            let shared = shared.clone();
            native::go(move || shared.1.wait(&mut shared.0.lock()))
        };
        native::yield_now();
        let mut other = shared.2.lock();
        assert_eq!(panic_of(|| shared.1.wait(&mut other)), "sync: Gs wait for one Condvar with two mutexes");
        assert!(shared.1.notify_one());
        waiting.join().unwrap();
        // No G waits for the condition variable any more, so another mutex may be used with it.
        let waiting = {
            let shared = shared.clone();
            native::go(move || {
                while !shared.1.notify_one() {
                    native::yield_now();
                }
            })
        };
        shared.1.wait(&mut other);
        waiting.join().unwrap();
    });
}

#[test]
fn panic_unlocks_locks_and_resets_once() {
    THREADS.run(2, || {
        let mutex = Mutex::new(1);
        panic_of(|| {
            let _held = mutex.lock();
            panic!("on purpose");
        });
        assert_eq!(*mutex.try_lock().expect("free"), 1);

        let (once, cell) = (Once::new(), OnceCell::new());
        panic_of(|| once.call_once(|| panic!("on purpose")));
        assert!(!once.is_done());
        once.call_once(|| ());
        assert!(once.is_done());
        panic_of(|| _ = cell.get_or_init(|| -> u32 { panic!("on purpose") }));
        assert_eq!((cell.get(), *cell.get_or_init(|| 3)), (None, 3));
    });
}

#[test]
fn waiter_of_a_once_takes_over_after_a_panic() {
    THREADS.run(2, || {
        let shared = Arc::new((Once::new(), AtomicU32::new(0)));
        let all = spawn_each(0..6, |_| {
            let shared = shared.clone();
            move || {
                shared.0.call_once(|| {
                    native::yield_now();
                    if shared.1.fetch_add(1, Ordering::Relaxed) < 3 {
                        std::panic::resume_unwind(Box::new("on purpose"));
                    }
                });
            }
        });
        let failed = all.into_iter().map(|handle| handle.join()).filter(Result::is_err).count();
        assert_eq!((failed, shared.1.load(Ordering::Relaxed)), (3, 4));
    });
}

#[test]
fn recursive_once_panics() {
    THREADS.run(1, || {
        let once = Once::new();
        let text = panic_of(|| once.call_once(|| once.call_once(|| ())));
        assert_eq!(text, "sync: Once called recursively from its own function");
        assert!(!once.is_done());
    });
}

#[test]
fn pool_respects_its_capacity() {
    struct Counted(Arc<AtomicU32>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicU32::new(0));
    let counter = dropped.clone();
    THREADS.run(1, move || {
        let made = counter.clone();
        let pool = Pool::new(3, move || Counted(made.clone()));
        let taken: Vec<_> = (0..8).map(|_| pool.get()).collect();
        assert_eq!(counter.load(Ordering::Relaxed), 0);
        drop(taken);
        assert_eq!(counter.load(Ordering::Relaxed), 5);
        drop((0..3).map(|_| pool.get()).collect::<Vec<_>>());
        assert_eq!(counter.load(Ordering::Relaxed), 5, "the pool reuses the values that it kept");
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 8);
}

#[test]
fn pools_are_shared_between_ps() {
    THREADS.run(4, || {
        let pool: Arc<Pool<Vec<u32>>> = Arc::new(Pool::new(8, Vec::new));
        join_all(spawn_each(0..8, |n| {
            let pool = pool.clone();
            move || {
                for _ in 0..200 {
                    let mut value = pool.get();
                    value.clear();
                    value.push(n);
                    native::yield_now();
                    assert_eq!(*value, [n], "two Gs have the same value");
                }
            }
        }));
    });
}

#[test]
fn single_flight_shares_calls_and_forgets_them() {
    THREADS.run(1, || {
        let flights = Arc::new(SingleFlight::new());
        let calls = Arc::new(AtomicU32::new(0));
        let all = spawn_each(0..4, |_| {
            let (flights, calls) = (flights.clone(), calls.clone());
            move || {
                flights.call("key", || {
                    native::yield_now();
                    native::yield_now();
                    calls.fetch_add(1, Ordering::Relaxed) + 1
                })
            }
        });
        let all: Vec<_> = join_all(all);
        assert_eq!(all, [Fetched { value: 1, is_shared: true }; 4]);
        assert_eq!(flights.call("key", || 7), Fetched { value: 7, is_shared: false });
    });
}

/// A call that was forgotten ends without an effect on the call that replaced it: later callers join the latter.
#[test]
fn forgotten_call_does_not_end_the_call_after_it() {
    THREADS.run(1, || {
        let flights = Arc::new(SingleFlight::new());
        let call = |value, gate: Receiver<()>| {
            let flights = flights.clone();
            let made = native::go(move || {
                let fetch = || {
                    let _ = gate.recv();
                    value
                };
                flights.call("key", fetch).value
            });
            // With one P, the other G waits at its gate, or for the call that it has joined, when this one continues.
            native::yield_now();
            made
        };
        let gates: [(Sender<()>, Receiver<()>); 2] = [native::channel(0), native::channel(0)];
        let first = call(1, gates[0].1.clone());
        flights.forget(&"key");
        let second = call(2, gates[1].1.clone());
        gates[0].0.close();
        assert_eq!(first.join(), Ok(1));
        let third = call(3, gates[1].1.clone());
        gates[1].0.close();
        assert_eq!((second.join(), third.join()), (Ok(2), Ok(2)));
        assert_eq!(flights.call("key", || 4).value, 4);
    });
}

/// If a call panics or its G ends itself, each waiter calls its own function, and none waits forever.
#[test]
fn callers_of_a_call_that_does_not_return_do_not_wait_for_ever() {
    /// How a G ends, and whether its error says so.
    type End = (fn() -> u32, fn(&JoinError) -> bool);
    let ends: [End; 2] = [
        (|| std::panic::panic_any("no value"), |error| matches!(error, JoinError::Panicked(_))),
        (|| native::goexit(), |error| matches!(error, JoinError::Exited)),
    ];
    for (fetch, is_expected) in ends {
        THREADS.run(2, move || {
            let flights = Arc::new(SingleFlight::new());
            let calls = spawn_each(0..5, |_| {
                let flights = flights.clone();
                move || {
                    flights.call("key", || {
                        native::yield_now();
                        fetch()
                    })
                }
            });
            assert!(calls.into_iter().all(|call| is_expected(&call.join().unwrap_err())));
            assert_eq!(flights.call("key", || 7).value, 7);
        });
    }
}
