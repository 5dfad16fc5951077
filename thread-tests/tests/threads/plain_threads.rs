//! Tests of channels and futures that are used by threads without a scheduler.
#![deny(unsafe_code)]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use gmp_sched::chan::{RecvError, SendError};
use gmp_sched::native::{self, block_on, channel};
use thread_tests::THREADS;

#[test]
fn threads_and_goroutines_pass_values_both_ways() {
    for capacity in [0, 3] {
        for processors in [1, 4] {
            let (to_gs, requests) = channel::<u64>(capacity);
            let (answers, from_gs) = channel::<u64>(capacity);
            let expected = native::expect_wakes();
            let threads: Vec<_> = (0..3u64)
                .map(|thread| {
                    let (to_gs, from_gs) = (to_gs.clone(), from_gs.clone());
                    thread::spawn(move || {
                        let one = |number| {
                            to_gs.blocking_send(1000 * thread + number).unwrap();
                            from_gs.blocking_recv().unwrap()
                        };
                        (0..100).map(one).sum::<u64>()
                    })
                })
                .collect();
            drop((to_gs, from_gs));
            THREADS.run(processors, move || {
                let double = |request| answers.send(2 * request).unwrap();
                requests.iter().for_each(double);
            });
            let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(sum, 2 * (0..3u64).map(|thread| 100 * 1000 * thread + 4950).sum::<u64>());
            drop(expected);
        }
    }
}

/// A single thread that waits is not reported as a deadlock, even if no G exists, because another thread may end the
/// wait.
#[test]
fn threads_alone_use_a_channel() {
    let (sender, receiver) = channel(0);
    let reader = thread::spawn(move || (receiver.blocking_recv(), receiver.blocking_recv()));
    thread::sleep(Duration::from_millis(20));
    sender.blocking_send("text").unwrap();
    thread::sleep(Duration::from_millis(20));
    drop(sender);
    assert_eq!(reader.join().unwrap(), (Ok("text"), Err(RecvError)));
}

/// The G waits while the thread is between two waits of its own. Then only the value of `expect_wakes` keeps a deadlock
/// from being reported.
#[test]
fn deadlock_is_not_reported_while_a_thread_is_expected_to_wake_the_goroutine() {
    let (sender, receiver) = channel(0);
    let (to_thread, from_main) = channel(0);
    let expected = native::expect_wakes();
    let thread = thread::spawn(move || {
        let question: u32 = from_main.blocking_recv().unwrap();
        thread::sleep(Duration::from_millis(20));
        sender.blocking_send(question + 1).unwrap();
        drop(expected);
    });
    let answer = THREADS.run(1, move || {
        to_thread.send(6).unwrap();
        receiver.recv()
    });
    assert_eq!(answer, Ok(7));
    thread.join().unwrap();
}

#[test]
fn closing_ends_the_wait_of_a_thread_and_returns_its_value() {
    let (sender, receiver) = channel(0);
    let blocked = thread::spawn(move || sender.blocking_send(String::from("mine")));
    thread::sleep(Duration::from_millis(20));
    drop(receiver);
    assert_eq!(blocked.join().unwrap(), Err(SendError(String::from("mine"))));
}

#[test]
fn goroutines_may_call_them_also_in_blocking_calls() {
    for processors in [1, 2] {
        THREADS.run(processors, || {
            let (sender, receiver) = channel(0);
            let echo = native::go(move || receiver.iter().sum::<u32>());
            sender.blocking_send(1).unwrap();
            native::blocking(|| sender.blocking_send(2)).unwrap();
            native::syscall(|| sender.blocking_send(3)).unwrap();
            assert_eq!(native::blocking(|| block_on(async { 4 })), 4);
            drop(sender);
            assert_eq!(echo.join(), Ok(6));
        });
    }
}

#[test]
fn thread_runs_a_future_that_a_goroutine_completes() {
    let (to_g, wakers) = mpsc::channel();
    let scheduler = thread::spawn(move || {
        THREADS.run(2, move || {
            let waker: std::task::Waker = native::blocking(|| wakers.recv().unwrap());
            native::sleep(Duration::from_millis(10));
            waker.wake();
        });
    });
    let mut polls = 0;
    let mut future = pin!(poll_fn(|context| {
        polls += 1;
        if polls == 1 {
            to_g.send(context.waker().clone()).unwrap();
            return Poll::Pending;
        }
        Poll::Ready("woken")
    }));
    assert_eq!(block_on(&mut future), "woken");
    scheduler.join().unwrap();
}
