//! Tests of selects: the rules of Go's specification, and deadlines. The tests of ordered selects are in
//! `ordered_selects`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use gmp_sched::chan::{RecvError, SendError};
use gmp_sched::select;
use gmp_sched::select::{Select, recv, send};
use gmp_sched::time::Instant;

use super::platform::{Chan, Context, Receiver, ThisPlatform, channel, go, now, yield_now};
use super::several::{join_all, spawn_each};

fn ready_cases_are_chosen_with_equal_probability() {
    const ROUNDS: usize = 4000;
    // Four cases are ready. The first select has only these four cases. The second select has 100 cases, which are more
    // than a word has bits.
    for cases in [4, 100] {
        let chans: Vec<_> = (0..cases).map(|_| Chan::new(1)).collect();
        let ready = [0, cases / 4, cases / 2, cases - 1];
        let mut chosen = [0; 4];
        for number in ready {
            chans[number].send(()).unwrap();
        }
        for _ in 0..ROUNDS {
            let mut waiting: Vec<_> = chans.iter().map(|chan| recv(chan.receiver())).collect();
            let mut cases: Vec<_> = waiting.iter_mut().map(|each| each.case()).collect();
            let number = Select::new(&mut cases).wait();
            chosen[ready.iter().position(|&one| one == number).unwrap()] += 1;
            chans[number].send(()).unwrap();
        }
        // If the choice is fair, this assertion fails with a probability below 10⁻⁹.
        assert!(chosen.iter().all(|&count| (ROUNDS / 4).abs_diff(count) < ROUNDS / 20), "{chosen:?}");
    }
}
shared_test!(ready_cases_are_chosen_with_equal_probability);

/// All cases receive from one channel. Each case is chosen equally often, both if a sender waits before the select
/// begins and if the sender arrives during the select's wait.
fn cases_on_one_channel_are_chosen_with_equal_probability() {
    const ROUNDS: usize = 4000;
    let (sender, receiver) = channel(0);
    let sending = go(move || {
        for _ in 0..ROUNDS {
            sender.send(()).unwrap();
        }
    });
    let mut chosen = [0; 4];
    for _ in 0..ROUNDS {
        let number = select! {
            recv(receiver) => 0,
            recv(receiver) => 1,
            recv(receiver) => 2,
            recv(receiver) => 3,
        };
        chosen[number] += 1;
    }
    sending.join().unwrap();
    // The bound is the same as in `ready_cases_are_chosen_with_equal_probability`.
    assert!(chosen.iter().all(|&count| (ROUNDS / 4).abs_diff(count) < ROUNDS / 20), "{chosen:?}");
}
shared_test!(cases_on_one_channel_are_chosen_with_equal_probability);

fn default_is_taken_only_if_no_case_is_ready() {
    let (sender, receiver) = channel(1);
    let poll = |value| {
        select! {
            send(sender, value) -> sent => sent.map(|()| None).map_err(SendError::into_inner),
            recv(receiver) -> received => Ok(received.ok()),
            default => Ok(Some(100)),
        }
    };
    assert_eq!((poll(1), poll(2)), (Ok(None), Ok(Some(1))));
    let (_sender, receiver) = channel::<u8>(0);
    select! {
        recv(receiver) => unreachable!(),
        recv(receiver) => unreachable!(),
        default => {}
    }
}
shared_test!(default_is_taken_only_if_no_case_is_ready);

fn select_never_exchanges_a_value_with_itself() {
    let chan = Chan::new(0);
    for _ in 0..20 {
        select! {
            send(chan.sender(), 1) => unreachable!(),
            recv(chan.receiver()) => unreachable!(),
            timeout(Duration::from_micros(20)) => {}
        }
    }
    // A select in this G and one in another G exchange a value with each other.
    let other = {
        let chan = chan.clone();
        go(move || {
            select! {
                send(chan.sender(), 2) -> sent => sent.map(|()| 0).unwrap(),
                recv(chan.receiver()) -> value => value.unwrap(),
            }
        })
    };
    let here = select! {
        send(chan.sender(), 3) -> sent => sent.map(|()| 0).unwrap(),
        recv(chan.receiver()) -> value => value.unwrap(),
    };
    let there = other.join().unwrap();
    assert!((here, there) == (0, 3) || (here, there) == (2, 0), "{here} {there}");
}
shared_test!(select_never_exchanges_a_value_with_itself);

fn unsent_value_stays_in_its_case() {
    let (sender, receiver) = channel(0);
    let (other, ready) = channel(1);
    other.send(1).unwrap();
    let (mut sending, mut receiving) = (send(&sender, alloc::boxed::Box::new(7)), recv(&ready));
    assert_eq!(Select::new(&mut [sending.case(), receiving.case()]).wait(), 1);
    assert_eq!(receiving.into_result(), Some(Ok(1)));
    // The value was not sent, so the next select can try to send it again.
    assert_eq!(Select::new(&mut [sending.case()]).wait_timeout(Duration::from_micros(20)), None);
    drop(receiver);
    assert_eq!(Select::new(&mut [sending.case()]).wait(), 0);
    assert_eq!(sending.into_result().unwrap().unwrap_err().into_inner(), alloc::boxed::Box::new(7));
}
shared_test!(unsent_value_stays_in_its_case);

fn close_ends_selects() {
    let (chan, other) = (Chan::new(0), Chan::<u8>::new(0));
    let receiving = spawn_each(0..3, |_| {
        let (chan, other) = (chan.clone(), other.clone());
        move || {
            select! {
                recv(other.receiver()) => unreachable!(),
                recv(chan.receiver()) -> value => value,
            }
        }
    });
    let full = Chan::new(0);
    let sending = spawn_each(0..3, |n| {
        let (full, other) = (full.clone(), other.clone());
        move || {
            select! {
                send(full.sender(), n) -> sent => sent,
                recv(other.receiver()) => unreachable!(),
            }
        }
    });
    (0..20).for_each(|_| yield_now());
    chan.send(8).unwrap();
    chan.close();
    full.close();
    let received: Vec<_> = join_all(receiving);
    assert_eq!(received.iter().filter(|value| **value == Ok(8)).count(), 1);
    assert_eq!(received.iter().filter(|value| value.is_err()).count(), 2);
    for (n, handle) in (0..).zip(sending) {
        assert_eq!(handle.join().unwrap(), Err(SendError(n)));
    }
}
shared_test!(close_ends_selects);

/// A limit that is over when the select begins is chosen as often as each of the ready cases. The selects have three
/// ready cases. The last select has more cases than a word has bits.
fn limit_that_is_over_is_chosen_like_a_ready_case() {
    const ROUNDS: usize = 4000;
    let (context, cancel) = Context::background().with_cancel();
    cancel.cancel();
    let chan = Chan::new(1);
    chan.send(()).unwrap();
    let (one, two, three) = (chan.receiver(), chan.receiver(), chan.receiver());
    let select_of = |count: usize, end: &dyn Fn(Select<'_, ThisPlatform>) -> Option<usize>| {
        let idle = Receiver::<()>::never();
        let receivers = [one, two, three].into_iter().chain((3..count).map(|_| &idle));
        let mut waiting: Vec<_> = receivers.map(recv).collect();
        let mut cases: Vec<_> = waiting.iter_mut().map(|each| each.case()).collect();
        end(Select::new(&mut cases)).unwrap_or(3)
    };
    let selects: [&dyn Fn() -> usize; 6] = [
        &|| select! { recv(one) => 0, recv(two) => 1, recv(three) => 2, until(&context) => 3 },
        &|| select! { recv(one) => 0, recv(two) => 1, recv(three) => 2, until(Instant::from_nanos(0)) => 3 },
        &|| select! { recv(one) => 0, recv(two) => 1, recv(three) => 2, timeout(Duration::ZERO) => 3 },
        &|| select_of(3, &|select| select.wait_until(&context).ok()),
        &|| select_of(3, &|select| select.wait_timeout(Duration::ZERO)),
        &|| select_of(64, &|select| select.wait_until(&context).ok()),
    ];
    for select in selects {
        let mut chosen = [0; 4];
        for _ in 0..ROUNDS {
            chosen[select()] += 1;
            let _ = chan.try_send(());
        }
        // If the choice is fair, this assertion fails with a probability below 10⁻⁹.
        assert!(chosen.iter().all(|&count| (ROUNDS / 4).abs_diff(count) < ROUNDS / 20), "{chosen:?}");
    }
    for _ in 0..50 {
        let value = select! { ordered; recv(chan) -> value => value, until(&context) => Err(RecvError) };
        assert_eq!(value, Ok(()), "the limit is the last of the ready cases");
        chan.send(()).unwrap();
    }
}
shared_test!(limit_that_is_over_is_chosen_like_a_ready_case);

/// A loop whose channel is always ready ends at its deadline, and when its context is cancelled.
fn channel_that_is_always_ready_does_not_hide_a_limit() {
    let (closed, _) = channel::<u8>(0);
    let (context, cancel) = Context::background().with_cancel();
    let deadline = now() + Duration::from_millis(2);
    let loops = go(move || {
        loop {
            select! {
                send(closed, 1) -> sent => assert_eq!(sent, Err(SendError(1))),
                until(deadline) => break,
            }
        }
        loop {
            select! {
                send(closed, 1) => yield_now(),
                until(&context) => return now() >= deadline,
            }
        }
    });
    while now() < deadline {
        yield_now();
    }
    cancel.cancel();
    assert_eq!(loops.join(), Ok(true));
}
shared_test!(channel_that_is_always_ready_does_not_hide_a_limit);

/// Every value that is sent is received once by some select, both without deadlines and with deadlines.
fn selects_lose_and_duplicate_no_value() {
    const EACH: usize = 600;
    for (capacity, timeout) in [(0, None), (1, None), (3, Some(20)), (0, Some(5))] {
        let chans: Vec<_> = (0..3).map(|_| Chan::new(capacity)).collect();
        let wait = move |select: Select<'_, _>, n: usize| match timeout {
            None => Some(select.wait()),
            Some(micros) => select.wait_timeout(Duration::from_micros((micros * n as u64) % 60)),
        };
        let sending = spawn_each(0..4usize, |number| {
            let chans = chans.clone();
            move || {
                let mut sum = 0;
                for n in 0..EACH {
                    let value = number * EACH + n;
                    let mut waiting: Vec<_> = chans.iter().map(|chan| send(chan.sender(), value)).collect();
                    let mut cases: Vec<_> = waiting.iter_mut().map(|each| each.case()).collect();
                    sum += wait(Select::new(&mut cases), n).map_or(0, |_| value);
                }
                sum
            }
        });
        let stop = Chan::<()>::new(0);
        let receiving = spawn_each(0..3, |number| {
            let (chans, stop) = (chans.clone(), stop.clone());
            move || {
                let mut sum = 0;
                for n in number.. {
                    let mut waiting: Vec<_> = chans.iter().map(|chan| recv(chan.receiver())).collect();
                    let mut stopping = recv(stop.receiver());
                    let mut cases: Vec<_> = waiting.iter_mut().map(|each| each.case()).collect();
                    cases.push(stopping.case());
                    let chosen = wait(Select::new(&mut cases).ordered(), n);
                    match chosen {
                        Some(number) if number < chans.len() => {
                            sum += waiting.swap_remove(number).into_result().unwrap().unwrap();
                        }
                        Some(_) => return sum,
                        None => {}
                    }
                }
                sum
            }
        });
        let sent: usize = sending.into_iter().map(|handle| handle.join().unwrap()).sum();
        // The receivers' selects are ordered, so they receive the values left in the buffers before they see that
        // `stop` is closed.
        stop.close();
        let received: usize = receiving.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(sent, received);
    }
}
shared_test!(selects_lose_and_duplicate_no_value);

/// Each value is dropped exactly once, also if its select times out or takes `default`, or if the received value is
/// never taken out of the case.
fn values_in_selects_are_dropped_exactly_once() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let value = || Counted(drops.clone());
    let (sender, receiver) = channel(1);
    // The first value is sent. The next three values are not sent, and are dropped: the first of them because the
    // select takes `default`, the second because the select times out, and the third together with its case.
    select! { send(sender, value()) => {} };
    select! { send(sender, value()) => unreachable!(), default => {} };
    select! { send(sender, value()) => unreachable!(), timeout(Duration::from_micros(20)) => {} };
    drop(send(&sender, value()));
    assert_eq!(drops.load(Ordering::Relaxed), 3);
    // The case receives the first value, which is not taken out of the case. So the value is dropped when the same case
    // receives another one.
    let mut receiving = recv(&receiver);
    assert_eq!(Select::new(&mut [receiving.case()]).wait(), 0);
    assert_eq!(drops.load(Ordering::Relaxed), 3);
    assert!(sender.send(value()).is_ok());
    assert_eq!(Select::new(&mut [receiving.case()]).wait(), 0);
    assert_eq!(drops.load(Ordering::Relaxed), 4);
    drop(receiving);
    assert_eq!(drops.load(Ordering::Relaxed), 5);
    drop(receiver);
    select! { send(sender, value()) -> sent => assert!(sent.is_err()) };
    assert_eq!(drops.load(Ordering::Relaxed), 6);
}
shared_test!(values_in_selects_are_dropped_exactly_once);

/// A value that is not sent stays in its variable for the next select, and is dropped once. While the variable is
/// empty, the case is never chosen.
fn send_from_leaves_the_value_until_it_is_sent() {
    let alive = Arc::new(());
    let mut value = Some(alive.clone());
    let (sender, receiver) = channel(0);
    let poll = |value: &mut Option<Arc<()>>| {
        select! {
            send_from(sender, *value) -> sent => Some(sent),
            default => None,
        }
    };
    assert!(poll(&mut value).is_none() && value.is_some());
    select! {
        send_from(sender, value) => unreachable!(),
        timeout(Duration::from_micros(20)) => {}
    }
    assert!(value.is_some() && Arc::strong_count(&alive) == 2);
    let receiving = go(move || (receiver.recv().unwrap(), receiver));
    select! { send_from(sender, value) -> sent => sent.unwrap() }
    assert!(value.is_none());
    // While the variable is empty, the case is not chosen. This holds while there is a receiver, and also after the
    // last receiver was dropped, as checked below.
    assert!(poll(&mut value).is_none());
    let (received, receiver) = receiving.join().unwrap();
    drop((received, receiver));
    assert_eq!(Arc::strong_count(&alive), 1);
    assert!(poll(&mut value).is_none());
    value = Some(alive.clone());
    let refused = poll(&mut value).unwrap().unwrap_err().into_inner();
    assert!(value.is_none() && Arc::strong_count(&alive) == 2);
    drop(refused);
}
shared_test!(send_from_leaves_the_value_until_it_is_sent);

/// The select has more cases than a word has bits. The cases are also so many that the Shell sort of the locks uses its
/// larger gaps.
fn select_of_more_than_64_cases() {
    const CASES: usize = 900;
    let chans: Vec<_> = (0..CASES).map(|_| Chan::new(0)).collect();
    for round in 0..5 {
        let number = (round * 397) % CASES;
        let sender = chans[number].sender().clone();
        let sending = go(move || sender.send(round).unwrap());
        let mut waiting: Vec<_> = chans.iter().map(|chan| recv(chan.receiver())).collect();
        let mut cases: Vec<_> = waiting.iter_mut().map(|each| each.case()).collect();
        assert_eq!(Select::new(&mut cases).wait(), number);
        assert_eq!(waiting.swap_remove(number).into_result(), Some(Ok(round)));
        sending.join().unwrap();
    }
}
shared_test!(select_of_more_than_64_cases);

/// The body of a case may leave a loop. It may also replace a closed receiver by `never`, as a Go program sets a closed
/// channel to nil.
fn select_bodies_may_break_and_assign() {
    let (sender, mut first) = channel(0);
    let (other, mut second) = channel(0);
    go(move || (0..3).for_each(|n| sender.send(n).unwrap())).detach();
    go(move || (0..2).for_each(|n| other.send(n).unwrap())).detach();
    let (mut open, mut sum) = (2, 0);
    let sum = loop {
        if open == 0 {
            break sum;
        }
        select! {
            recv(first) -> value => match value {
                Ok(n) => sum += n,
                Err(RecvError) => {
                    first = Receiver::never();
                    open -= 1;
                    continue;
                }
            },
            recv(second) -> value => {
                let Ok(n) = value else {
                    second = Receiver::never();
                    open -= 1;
                    continue;
                };
                sum += n;
            }
        }
    };
    assert_eq!(sum, 4);
}
shared_test!(select_bodies_may_break_and_assign);
