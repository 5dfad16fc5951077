//! Calls by callers that must not block: a thread that is not an M, and a G whose M has given up its P. A call that
//! would have to wait panics, leaves the channels unchanged, and drops the value that it did not send.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use gmp_sched::native::{self, Chan, channel};
use gmp_sched::select;
use gmp_sched::select::{Select, recv, send};
use gmp_sched::time::Instant;
use thread_tests::THREADS;

/// A reference-counted value, so that the test can check whether it was dropped.
type Value = Arc<()>;

/// The name of a call, and the call itself. The call has to wait for one of the two channels. A call that does not send
/// the given value drops the value.
type Wait = (&'static str, fn(&Chan<Value>, &Chan<Value>, Value));

/// Returns every kind of wait for the two channels, neither of which is ready.
fn waits() -> [Wait; 11] {
    const LONG: Duration = Duration::from_secs(3600);
    [
        ("send", |one, _, value| _ = one.send(value)),
        ("recv", |one, _, _| _ = one.recv()),
        ("send_timeout", |one, _, value| _ = one.sender().send_timeout(value, LONG)),
        ("recv_timeout", |one, _, _| _ = one.receiver().recv_timeout(LONG)),
        ("select", |one, two, value| {
            select! { recv(one.receiver()) => {}, send(two.sender(), value) => {} }
        }),
        ("select that sends from an option", |one, two, value| {
            let mut value = Some(value);
            select! { recv(one.receiver()) => {}, send_from(two.sender(), value) => {} }
        }),
        ("select of two cases on one channel", |one, _, _| {
            select! { recv(one.receiver()) => {}, recv(one.receiver()) => {} }
        }),
        ("ordered select", |one, two, value| {
            select! { ordered; recv(one.receiver()) => {}, send(two.sender(), value) => {} }
        }),
        ("select with a time limit", |one, two, value| {
            select! { recv(one.receiver()) => {}, send(two.sender(), value) => {}, timeout(LONG) => {} }
        }),
        ("list of cases", |one, two, value| {
            let (mut receiving, mut sending) = (recv(one.receiver()), send(two.sender(), value));
            _ = Select::new(&mut [receiving.case(), sending.case()]).wait_timeout(LONG);
        }),
        ("list of cases on one channel", |one, _, _| {
            let mut receiving = [recv(one.receiver()), recv(one.receiver()), recv(one.receiver())];
            let [first, second, third] = &mut receiving;
            _ = Select::new(&mut [first.case(), second.case(), third.case()]).ordered().wait_timeout(LONG);
        }),
    ]
}

/// Checks that each call of [`waits`] panics. Called in places where waiting is not allowed.
fn each_is_refused() {
    for (name, wait) in waits() {
        let (one, two, value) = (Chan::new(0), Chan::new(0), Value::default());
        let ended = catch_unwind(AssertUnwindSafe(|| wait(&one, &two, value.clone())));
        assert!(ended.is_err(), "{name} did not have to wait");
        assert_eq!(Arc::strong_count(&value), 1, "{name} has not dropped its value");
        let (done, is_done) = mpsc::channel();
        // Another thread uses the channels. If a call had kept a lock, that thread would spin forever.
        thread::spawn(move || {
            for chan in [one, two] {
                // Both calls fail only if no waiter is left in the queues.
                assert!(chan.receiver().try_recv().is_err() && chan.sender().try_send(Value::default()).is_err());
                // Closing takes the lock.
                assert!(chan.sender().close());
            }
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{name} keeps a lock"));
    }
}

#[test]
fn wait_on_a_foreign_thread_panics_without_keeping_a_lock_or_the_value() {
    each_is_refused();
}

#[test]
fn wait_in_a_system_call_panics_without_keeping_a_lock_or_the_value() {
    THREADS.run(1, || native::blocking(each_is_refused));
}

/// A caller without a P cannot arm a timer, whose case then goes on to seem ready, although it is not.
#[test]
fn select_without_a_p_ends_beside_a_timer_that_is_not_due() {
    THREADS.run(1, || {
        let (timer, (sender, receiver)) = (native::Timer::new(Duration::from_secs(3600)), channel(1));
        let never = native::Receiver::<u32>::never();
        native::blocking(|| {
            let poll = |is_ordered| {
                let (mut tick, mut value, mut none) = (recv(&timer), recv(&receiver), recv(&never));
                let mut cases = [tick.case(), value.case(), none.case()];
                let select = Select::new(&mut cases);
                if is_ordered { select.ordered().poll() } else { select.poll() }
            };
            for is_ordered in [false, true] {
                assert_eq!(poll(is_ordered), None);
                sender.send(1).unwrap();
                assert_eq!(poll(is_ordered), Some(1));
            }
        });
    });
}

/// A select that does not have to wait may be made by any thread, because its random choice needs no P.
#[test]
fn select_without_wait_works_without_a_p() {
    fn choose() {
        let mut chosen = [0; 2];
        for _ in 0..200 {
            let ((sender, receiver), (other_sender, other_receiver)) = (channel(1), channel(1));
            sender.send(0).unwrap();
            other_sender.send(1).unwrap();
            let (mut one, mut other) = (recv(&receiver), recv(&other_receiver));
            chosen[Select::new(&mut [one.case(), other.case()]).wait_until(Instant::NEVER).unwrap()] += 1;
            let (mut one, mut other) = (recv(&receiver), recv(&other_receiver));
            _ = Select::new(&mut [one.case(), other.case()]).poll().unwrap();
        }
        assert!(chosen.iter().all(|&count| count > 0), "the choice is not random: {chosen:?}");
    }
    choose();
    THREADS.run(1, || native::blocking(choose));
}
