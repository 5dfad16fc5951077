//! Tests of mutexes, reader-writer locks and condition variables.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use gmp_sched::sync::lock_api::{MappedMutexGuard, MutexGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};
use gmp_sched::time::Instant;

use super::platform::{Condvar, JoinHandle, Mutex, ReadMostlyRwLock, RwLock, go, sleep, yield_now};
use super::several::join_all;

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
