//! The order in which waiters are served, with one P. If Go's order is deterministic, the tests expect the same order.
//!
//! Most tests first let a number of Gs wait, one after the other. They assume that a G that begins to run reaches its
//! wait without being preempted, so no slice may end before the wait. On a busy computer, a slice could end after any
//! statement. So these tests run with endless or very long slices: on threads in the process of
//! `thread-tests/tests/order.rs`, and in the kernel on a machine with the option `slice_us`. The file
//! `thread-tests/tests/order.rs` and the kernel's tests include this file.

use alloc::sync::Arc;
use alloc::vec::Vec;

use gmp_sched::sync::lock_api::MutexGuard;

use super::platform::{
    Condvar, JoinHandle, Mutex, ReadMostlyRwLock, Receiver, RwLock, WaitGroup, channel, go, yield_now,
};

/// Spawns `count` Gs, each of which calls `body` with its number. With one P, the Gs run in the order of their numbers,
/// each until it waits or ends.
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

/// Joins all `handles` and returns the results, in the order of the handles.
fn join_all<T: Send + 'static>(handles: Vec<JoinHandle<T>>) -> Vec<T> {
    handles.into_iter().map(|handle| handle.join().unwrap()).collect()
}

fn spawned_gs_run_in_gos_order() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let handles: Vec<_> = (0..10)
        .map(|number| {
            let order = order.clone();
            go(move || order.lock().push(number))
        })
        .collect();
    join_all(handles);
    assert_eq!(*order.lock(), [9, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
}
shared_test!(spawned_gs_run_in_gos_order, procs = &[1]);

/// A sender continues before the receivers that it has woken. The receiver that was woken last runs first, and the
/// others follow in the order in which they were woken. A close wakes the receiver that has waited longest last.
fn woken_receivers_run_in_gos_order() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let receivers = |receive: fn(&Receiver<u32>)| {
        let (sender, receiver) = channel(0);
        let order = order.clone();
        let receiving = start_in_order(5, move |number| {
            receive(&receiver);
            order.lock().push(number);
        });
        (sender, receiving)
    };

    let (sender, receiving) = receivers(|receiver| assert!(receiver.recv().is_err()));
    sender.close();
    join_all(receiving);
    assert_eq!(*order.lock(), [0, 4, 3, 2, 1]);

    order.lock().clear();
    let (sender, receiving) = receivers(|receiver| assert!(receiver.recv().is_ok()));
    (0..5).for_each(|n| sender.send(n).unwrap());
    order.lock().push(100);
    join_all(receiving);
    assert_eq!(*order.lock(), [100, 4, 0, 1, 2, 3]);
}
shared_test!(woken_receivers_run_in_gos_order, procs = &[1]);

fn channel_waiters_are_served_in_order() {
    let (sender, receiver) = channel(2);
    let receiving = start_in_order(5, {
        let receiver = receiver.clone();
        move |_| receiver.recv().unwrap()
    });
    (0..5).for_each(|n| sender.send(n).unwrap());
    assert_eq!(join_all(receiving), [0, 1, 2, 3, 4]);

    let sending = start_in_order(7, {
        let sender = sender.clone();
        move |n| sender.send(n).unwrap()
    });
    assert_eq!(sender.len(), 2);
    (0..7).for_each(|n| assert_eq!(receiver.recv(), Ok(n)));
    join_all(sending);
}
shared_test!(channel_waiters_are_served_in_order, procs = &[1]);

fn mutex_waiters_are_served_in_order() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let held = order.lock();
    let waiting = start_in_order(5, {
        let order = order.clone();
        move |number| order.lock().push(number)
    });
    drop(held);
    join_all(waiting);
    assert_eq!(*order.lock(), [0, 1, 2, 3, 4]);
}
shared_test!(mutex_waiters_are_served_in_order, procs = &[1]);

/// When a mutex is unlocked fairly, it is handed over to its first waiter. This waiter runs next.
fn fair_unlock_hands_over_to_the_first_waiter() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let held = order.lock();
    let waiting = start_in_order(2, {
        let order = order.clone();
        move |number| order.lock().push(number)
    });
    MutexGuard::unlock_fair(held);
    // The mutex has been handed over to the first waiter, so it is still locked.
    assert!(order.try_lock().is_none());
    order.lock().push(2);
    join_all(waiting);
    assert_eq!(*order.lock(), [0, 1, 2]);
}
shared_test!(fair_unlock_hands_over_to_the_first_waiter, procs = &[1]);

/// A fair unlock hands the mutex over to the next waiter although another one was woken before and still competes. A
/// waiter that has waited for a millisecond does not compete: an ordinary unlock hands the mutex over to it. So if the
/// computer stood still meanwhile, the waiters wait anew.
fn fair_unlock_hands_over_while_a_waiter_is_awake() {
    while !fair_unlock_while_a_waiter_competes() {}
}

/// Returns `false` if the first waiter did not compete.
fn fair_unlock_while_a_waiter_competes() -> bool {
    let order = Arc::new(Mutex::new(Vec::new()));
    let held = order.lock();
    let waiting = start_in_order(3, {
        let order = order.clone();
        move |number| order.lock().push(number)
    });
    drop(held);
    // The first waiter is awake, but has not run. So this G gets the mutex ahead of it.
    let Some(held) = order.try_lock() else {
        join_all(waiting);
        return false;
    };
    MutexGuard::unlock_fair(held);
    assert!(order.try_lock().is_none());
    order.lock().push(3);
    join_all(waiting);
    let mut order = order.lock();
    assert_eq!(order[0], 1);
    order.sort_unstable();
    assert_eq!(*order, [0, 1, 2, 3]);
    true
}
shared_test!(fair_unlock_hands_over_while_a_waiter_is_awake, procs = &[1]);

macro_rules! rwlock_tests {
    ($module:ident, $lock:ident) => {
        mod $module {
            use super::*;

            /// When a writer unlocks, all waiting readers are admitted.
            fn waiting_readers_are_admitted_in_order() {
                let (lock, order) = (Arc::new($lock::new(())), Arc::new(Mutex::new(Vec::new())));
                let writing = lock.write();
                let waiting = start_in_order(5, {
                    let (lock, order) = (lock.clone(), order.clone());
                    move |number| {
                        let _guard = lock.read();
                        order.lock().push(number);
                    }
                });
                drop(writing);
                join_all(waiting);
                assert_eq!(*order.lock(), [4, 0, 1, 2, 3]);
            }
            shared_test!(waiting_readers_are_admitted_in_order, procs = &[1]);

            /// A waiting writer keeps new readers out. In this test G 0 writes, and the others read.
            fn waiting_writer_precedes_new_readers() {
                let (lock, order) = (Arc::new($lock::new(())), Arc::new(Mutex::new(Vec::new())));
                let reading = lock.read();
                let waiting = start_in_order(6, {
                    let (lock, order) = (lock.clone(), order.clone());
                    move |number| {
                        if number == 0 {
                            let _guard = lock.write();
                            order.lock().push(number);
                        } else {
                            let _guard = lock.read();
                            order.lock().push(number);
                        }
                    }
                });
                assert!(order.lock().is_empty() && lock.try_read().is_none());
                drop(reading);
                join_all(waiting);
                let order = order.lock();
                assert_eq!((order[0], order.len()), (0, 6));
            }
            shared_test!(waiting_writer_precedes_new_readers, procs = &[1]);
        }
    };
}

rwlock_tests!(rwlock, RwLock);
rwlock_tests!(read_mostly, ReadMostlyRwLock);

/// The waiters run in the same order as in Go, both after a single `notify_all` and after repeated `notify_one`.
fn condvar_waiters_wake_in_order() {
    for (all_at_once, expected) in [(true, [4, 0, 1, 2, 3]), (false, [0, 1, 2, 3, 4])] {
        let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let waiting = start_in_order(5, {
            let shared = shared.clone();
            move |number| {
                let mut order = shared.0.lock();
                shared.1.wait(&mut order);
                order.push(number);
            }
        });
        if all_at_once {
            assert_eq!(shared.1.notify_all(), 5);
        } else {
            while shared.1.notify_one() {
                yield_now();
            }
        }
        join_all(waiting);
        assert_eq!(*shared.0.lock(), expected);
        assert_eq!((shared.1.notify_one(), shared.1.notify_all()), (false, 0));
    }
}
shared_test!(condvar_waiters_wake_in_order, procs = &[1]);

/// The waiters run in the same order as in Go. The wait group can be reused before the waiters have run.
fn wait_group_waiters_wake_in_order() {
    let (group, order) = (Arc::new(WaitGroup::new()), Arc::new(Mutex::new(Vec::new())));
    group.add(1);
    let waiting = start_in_order(5, {
        let (group, order) = (group.clone(), order.clone());
        move |number| {
            group.wait();
            order.lock().push(number);
        }
    });
    group.done();
    group.add(1);
    assert!(order.lock().is_empty());
    group.done();
    join_all(waiting);
    assert_eq!(*order.lock(), [4, 0, 1, 2, 3]);
}
shared_test!(wait_group_waiters_wake_in_order, procs = &[1]);
