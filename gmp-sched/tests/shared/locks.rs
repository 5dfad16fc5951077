//! Tests of mutexes, reader-writer locks and condition variables.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use gmp_sched::sync::lock_api::{MappedMutexGuard, MutexGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};
use gmp_sched::time::Instant;

use super::join_all;
use super::platform::{Condvar, JoinHandle, Mutex, ReadMostlyRwLock, RwLock, go, sleep, yield_now};

/// Spawns `count` Gs, each of which calls `body` with its number. With one P, the Gs begin in the order of their
/// numbers, and each runs until it waits, yields or ends, or until its slice is over.
fn start_in_order<T: Send + 'static>(
    count: u32,
    body: impl Fn(u32) -> T + Clone + Send + 'static,
) -> Vec<JoinHandle<T>> {
    (0..count)
        .map(|number| {
            let body = body.clone();
            let handle = go(move || body(number));
            yield_now();
            handle
        })
        .collect()
}

fn mutex_excludes_concurrent_increments() {
    let count = Arc::new(Mutex::new(0u32));
    let handles = start_in_order(8, {
        let count = count.clone();
        move |number| {
            for n in 0..500 {
                let mut guard = count.lock();
                let seen = *guard;
                if (n + number) % 100 == 0 {
                    yield_now();
                }
                *guard = seen + 1;
            }
        }
    });
    join_all(handles);
    assert_eq!(*count.lock(), 8 * 500);
}
shared_test!(mutex_excludes_concurrent_increments);

fn try_lock_does_not_wait() {
    let mutex = Mutex::new(1);
    let held = mutex.lock();
    assert!(mutex.is_locked() && mutex.try_lock().is_none());
    assert!(mutex.try_lock_until(Instant::from_nanos(0)).is_none());
    drop(held);
    assert!(!mutex.is_locked());
    *mutex.try_lock().unwrap() += 1;
    *mutex.try_lock_until(Instant::from_nanos(0)).unwrap() += 1;
    assert_eq!(mutex.into_inner(), 3);
}
shared_test!(try_lock_does_not_wait);

fn deadline_ends_the_wait_for_a_mutex() {
    let mutex = Arc::new(Mutex::new(()));
    let held = mutex.lock();
    let waiting = start_in_order(4, {
        let mutex = mutex.clone();
        move |number| mutex.try_lock_for(Duration::from_millis(5 + u64::from(number))).is_some()
    });
    assert_eq!(join_all(waiting), [false; 4]);
    let patient = start_in_order(2, {
        let mutex = mutex.clone();
        move |_| mutex.try_lock_for(Duration::from_secs(3600)).is_some()
    });
    drop(held);
    assert_eq!(join_all(patient), [true; 2]);
}
shared_test!(deadline_ends_the_wait_for_a_mutex);

/// Deadlines pass while the mutex is being unlocked. The mutex neither stays locked forever nor gets two holders.
fn mutex_survives_deadlines_during_unlock() {
    let mutex = Arc::new((Mutex::new(0u32), AtomicBool::new(false)));
    let handles = start_in_order(8, {
        let mutex = mutex.clone();
        move |number| {
            let mut got = 0;
            for n in 0..60u64 {
                let patience = Duration::from_micros((u64::from(number) * 37 + n * 11) % 150);
                if let Some(mut count) = mutex.0.try_lock_for(patience) {
                    assert!(!mutex.1.swap(true, Ordering::Relaxed), "two hold the mutex");
                    *count += 1;
                    got += 1;
                    if n % 8 == 0 {
                        sleep(Duration::from_micros(50));
                    }
                    mutex.1.store(false, Ordering::Relaxed);
                }
            }
            got
        }
    });
    let got: u32 = join_all(handles).into_iter().sum();
    assert_eq!(*mutex.0.try_lock().unwrap(), got);
}
shared_test!(mutex_survives_deadlines_during_unlock);

/// One G locks and unlocks the mutex in a loop. Nevertheless, when a waiter has waited for a long time, this G hands
/// the mutex over to the waiter.
fn greedy_holder_hands_over_to_a_starving_waiter() {
    let (mutex, stop) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let greedy = {
        let (mutex, stop) = (mutex.clone(), stop.clone());
        go(move || {
            while !stop.load(Ordering::Relaxed) {
                let _held = mutex.lock();
                // The G sleeps while it holds the mutex, so that the other Gs run and begin to wait for the mutex.
                sleep(Duration::from_micros(200));
            }
        })
    };
    yield_now();
    let handles = start_in_order(4, {
        let mutex = mutex.clone();
        move |_| (0..5).for_each(|_| drop(mutex.lock()))
    });
    join_all(handles);
    stop.store(true, Ordering::Relaxed);
    greedy.join().unwrap();
}
shared_test!(greedy_holder_hands_over_to_a_starving_waiter);

fn mutex_guards_can_be_sent_and_mapped() {
    let mutex = Arc::new(Mutex::new((1, 2)));
    // A guard can be sent to another G, because any G may unlock the mutex.
    let leaked: &'static Mutex<u32> = alloc::boxed::Box::leak(alloc::boxed::Box::new(Mutex::new(5)));
    let guard = leaked.lock();
    assert_eq!(go(move || *guard).join().unwrap(), 5);
    assert!(leaked.try_lock().is_some());
    let mut second = MutexGuard::map(mutex.lock(), |pair| &mut pair.1);
    *second = 7;
    MappedMutexGuard::unlock_fair(second);
    assert_eq!(*mutex.lock(), (1, 7));
}
shared_test!(mutex_guards_can_be_sent_and_mapped);

macro_rules! rwlock_tests {
    ($module:ident, $lock:ident) => {
        mod $module {
            use super::*;

            fn readers_share_and_writers_do_not() {
                let lock = Arc::new($lock::new(0u32));
                let (first, second) = (lock.read(), lock.try_read().unwrap());
                assert_eq!(*first + *second, 0);
                assert!(lock.try_write().is_none());
                assert!(lock.try_write_for(Duration::from_millis(1)).is_none());
                drop((first, second));
                let mut writer = lock.try_write().unwrap();
                *writer += 1;
                assert!(lock.try_read().is_none() && lock.is_locked_exclusive());
                let reader = {
                    let lock = lock.clone();
                    go(move || lock.try_read_for(Duration::from_millis(1)).is_none())
                };
                assert!(reader.join().unwrap());
                drop(writer);
                assert_eq!(*lock.read(), 1);
                assert!(!lock.is_locked());
            }
            shared_test!(readers_share_and_writers_do_not);

            /// No reader sees a half-written value.
            fn readers_see_no_partial_write() {
                let lock = Arc::new($lock::new((0u64, 0u64)));
                let handles = start_in_order(8, {
                    let lock = lock.clone();
                    move |number| {
                        for n in 0..200 {
                            if (n + number) % 4 == 0 {
                                let mut pair = lock.write();
                                pair.0 += 1;
                                if n % 16 == 0 {
                                    yield_now();
                                }
                                pair.1 += 1;
                            } else {
                                let pair = lock.read();
                                let first = pair.0;
                                if n % 16 == 1 {
                                    yield_now();
                                }
                                assert_eq!(first, pair.1);
                            }
                        }
                    }
                });
                join_all(handles);
                assert_eq!(*lock.read(), (400, 400));
            }
            shared_test!(readers_see_no_partial_write);

            fn guards_upgrade_and_downgrade() {
                let lock = Arc::new($lock::new(1u32));
                let upgradable = lock.upgradable_read();
                assert_eq!(*lock.try_read().expect("readers are let in beside it"), *upgradable);
                assert!(lock.try_upgradable_read().is_none() && lock.try_write().is_none());
                let reader = lock.read();
                let upgradable = RwLockUpgradableReadGuard::try_upgrade(upgradable).expect_err("there is a reader");
                let waiting = start_in_order(1, {
                    let lock = lock.clone();
                    move |_| *lock.write() *= 10
                });
                drop(reader);
                let mut writer = RwLockUpgradableReadGuard::upgrade(upgradable);
                *writer += 1;
                let reader = RwLockWriteGuard::downgrade(writer);
                // The other writer still waits, so new readers are kept out. But this reader holds the lock and may
                // read.
                assert_eq!(*reader, 2);
                drop(reader);
                join_all(waiting);
                assert_eq!(*lock.read(), 20);
            }
            shared_test!(guards_upgrade_and_downgrade);

            /// When a waiting writer times out, the readers that it kept out are admitted.
            fn writer_that_times_out_admits_readers() {
                let lock = Arc::new($lock::new(()));
                let reading = lock.read();
                let writer = start_in_order(1, {
                    let lock = lock.clone();
                    move |_| lock.try_write_for(Duration::from_millis(3)).is_some()
                });
                let readers = start_in_order(3, {
                    let lock = lock.clone();
                    move |_| drop(lock.read())
                });
                assert_eq!(join_all(writer), [false]);
                join_all(readers);
                drop(reading);
                assert!(lock.try_write().is_some());
            }
            shared_test!(writer_that_times_out_admits_readers);
        }
    };
}

rwlock_tests!(rwlock, RwLock);
rwlock_tests!(read_mostly, ReadMostlyRwLock);

fn deadline_ends_the_wait_for_a_condvar() {
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    let mut guard = mutex.lock();
    assert!(condvar.wait_timeout(&mut guard, Duration::from_millis(2)).timed_out());
    assert!(condvar.wait_until(&mut guard, Instant::from_nanos(0)).timed_out());
    assert!(mutex.is_locked());
    assert!(condvar.wait_while_timeout(&mut guard, |()| true, Duration::from_millis(2)).timed_out());
    assert!(!condvar.wait_while_timeout(&mut guard, |()| false, Duration::from_millis(2)).timed_out());
}
shared_test!(deadline_ends_the_wait_for_a_condvar);

/// Each of four Gs waits until the number under the mutex, modulo 4, is that G's number, and then increments it.
fn condvar_wakes_the_next_of_four() {
    let turns = Arc::new((Mutex::new(0u32), Condvar::new()));
    let players = start_in_order(4, {
        let turns = turns.clone();
        move |number| {
            for _ in 0..50 {
                let mut turn = turns.0.lock();
                turns.1.wait_while(&mut turn, |turn| *turn % 4 != number);
                *turn += 1;
                turns.1.notify_all();
            }
        }
    });
    join_all(players);
    assert_eq!(*turns.0.lock(), 200);
}
shared_test!(condvar_wakes_the_next_of_four);

/// A bounded buffer made of a mutex and two condition variables. The sum of the removed items equals the sum of the
/// added items.
fn bounded_buffer_loses_no_value() {
    struct Buffer {
        items: Mutex<Vec<u32>>,
        not_empty: Condvar,
        not_full: Condvar,
        sum: AtomicU32,
    }
    let buffer = Arc::new(Buffer {
        items: Mutex::new(Vec::new()),
        not_empty: Condvar::new(),
        not_full: Condvar::new(),
        sum: AtomicU32::new(0),
    });
    let handles = start_in_order(6, {
        let buffer = buffer.clone();
        move |number| {
            for n in 0..100 {
                let mut items = buffer.items.lock();
                if number % 2 == 0 {
                    buffer.not_full.wait_while(&mut items, |items| items.len() == 3);
                    items.push(n);
                    buffer.not_empty.notify_one();
                } else {
                    buffer.not_empty.wait_while(&mut items, |items| items.is_empty());
                    buffer.sum.fetch_add(items.remove(0), Ordering::Relaxed);
                    buffer.not_full.notify_one();
                }
            }
        }
    });
    join_all(handles);
    assert_eq!(buffer.sum.load(Ordering::Relaxed), 3 * (0..100).sum::<u32>());
    assert!(buffer.items.lock().is_empty());
}
shared_test!(bounded_buffer_loses_no_value);
