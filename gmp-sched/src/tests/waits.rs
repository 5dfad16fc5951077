use alloc::vec::Vec;
use core::time::Duration;
use std::sync::Arc;

use crate::base::spin_lock::Lock;
use crate::engine::park::park_with;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{WaitGeneration, WaitReason};
use crate::library::waiter::{WaitQueue, wait};
use crate::native::{self, Native, THREADS};
use crate::platform::{Pinned, Platform};

type Queue = Arc<Lock<WaitQueue<Native>, Native>>;

fn wait_in(queue: &Queue) {
    let caller = CurrentGoroutine::<Native>::new();
    let me = caller.me;
    let guard = queue.lock();
    me.waiter.prepare(me, WaitGeneration::SOLE, core::ptr::null_mut());
    guard.push_back(&me.waiter);
    drop(park_with(caller, WaitReason::Parked, |_, _| {
        drop(guard);
        true
    }));
}

fn wait_in_for(queue: &Queue, time: Duration) -> bool {
    let deadline = Native::now() + time;
    let caller = CurrentGoroutine::<Native>::new();
    let me = caller.me;
    let guard = queue.lock();
    let generation = me.open_wait();
    me.waiter.prepare(me, generation, core::ptr::null_mut());
    guard.push_back(&me.waiter);
    let woken = wait(caller, WaitReason::Parked, generation, Some(deadline), || drop(guard)).is_none();
    let _pinned = Pinned::<Native>::new();
    queue.lock().remove(&me.waiter);
    woken
}

fn wake_one(queue: &Queue) -> bool {
    let pinned = Pinned::<Native>::of_scheduler();
    let first = queue.lock().pop();
    first.map(|waiter| waiter.ready(&pinned)).is_some()
}

#[test]
fn waiters_are_woken_in_order() {
    THREADS.run(1, || {
        let queue = Queue::new(Lock::new(WaitQueue::new()));
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let waiting: Vec<_> = (0..5)
            .map(|number| {
                let (queue, order) = (queue.clone(), order.clone());
                let handle = native::go(move || {
                    wait_in(&queue);
                    order.lock().unwrap().push(number);
                });
                native::yield_now();
                handle
            })
            .collect();
        while wake_one(&queue) {
            native::yield_now();
        }
        for handle in waiting {
            handle.join().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn wait_with_deadline_and_waker_ends_once() {
    THREADS.run(4, || {
        let queue = Queue::new(Lock::new(WaitQueue::new()));
        let waiting: Vec<_> = (0..64u64)
            .map(|number| {
                let queue = queue.clone();
                native::go(move || {
                    let tries = 0..100u64;
                    tries.filter(|n| wait_in_for(&queue, Duration::from_micros((number * 7 + n) % 50))).count()
                })
            })
            .collect();
        let mut woken = 0;
        while !waiting.iter().all(|handle| handle.is_finished()) {
            woken += usize::from(wake_one(&queue));
            native::yield_now();
        }
        let woken_in_time: usize = waiting.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(woken_in_time, woken);
        let _pinned = Pinned::<Native>::new();
        assert!(queue.lock().is_empty());
    });
}
