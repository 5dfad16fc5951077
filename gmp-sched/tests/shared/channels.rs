//! Tests of channels: the rules of Go's specification, and this crate's additions.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;

use gmp_sched::chan::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError, try_channel,
};
use gmp_sched::platform::OutOfResources;

use super::platform::{Receiver, Sender, channel, go, yield_now};
use super::several::spawn_each;

/// Yields ten times, so that all other Gs run until they wait. With one P, a single yield would be enough.
fn yield_until_others_wait() {
    (0..10).for_each(|_| yield_now());
}

fn sender_and_receiver_wait_for_each_other() {
    let (sender, receiver) = channel(0);
    let sent = Arc::new(AtomicBool::new(false));
    let has_sent = sent.clone();
    let sending = go(move || {
        sender.send(1).unwrap();
        has_sent.store(true, Ordering::Relaxed);
    });
    yield_until_others_wait();
    assert!(!sent.load(Ordering::Relaxed), "an unbuffered send does not wait for its receiver");
    assert_eq!(receiver.recv(), Ok(1));
    sending.join().unwrap();
    assert_eq!(receiver.recv(), Err(RecvError));
}
shared_test!(sender_and_receiver_wait_for_each_other);

fn closed_channel_drains_before_reporting_closed() {
    let (sender, receiver) = channel(2);
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    let waiting = {
        let sender = sender.clone();
        go(move || sender.send(3))
    };
    yield_until_others_wait();
    assert!(sender.close() && !sender.close());
    assert_eq!(waiting.join().unwrap(), Err(SendError(3)));
    assert_eq!(sender.send(4), Err(SendError(4)));
    assert_eq!(sender.try_send(5), Err(TrySendError::Closed(5)));
    assert_eq!(sender.send_timeout(6, Duration::from_secs(1000)), Err(SendTimeoutError::Closed(6)));
    assert_eq!((receiver.recv(), receiver.try_recv()), (Ok(1), Ok(2)));
    assert_eq!(receiver.recv(), Err(RecvError));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(receiver.recv_timeout(Duration::from_secs(1000)), Err(RecvTimeoutError::Closed));
}
shared_test!(closed_channel_drains_before_reporting_closed);

fn dropping_the_last_sender_closes_the_channel() {
    let (sender, receiver) = channel::<u32>(0);
    let senders: Vec<_> = (0..10).map(|_| sender.clone()).collect();
    drop(sender);
    let receiving = spawn_each(0..4, |_| {
        let receiver = receiver.clone();
        move || receiver.iter().sum::<u32>()
    });
    for (n, sender) in (0..).zip(senders) {
        go(move || sender.send(n).unwrap()).detach();
    }
    assert_eq!(receiving.into_iter().map(|handle| handle.join().unwrap()).sum::<u32>(), 45);
    assert!(receiver.is_closed());
}
shared_test!(dropping_the_last_sender_closes_the_channel);

fn send_without_receivers_returns_the_value() {
    let (sender, receiver) = channel(0);
    let waiting = spawn_each(0..5, |n| {
        let sender = sender.clone();
        move || sender.send(n)
    });
    yield_until_others_wait();
    drop(receiver);
    for (n, handle) in (0..).zip(waiting) {
        assert_eq!(handle.join().unwrap(), Err(SendError(n)));
    }
    assert_eq!(sender.send(9), Err(SendError(9)));
}
shared_test!(send_without_receivers_returns_the_value);

/// A value that is counted in `alive` from its creation to its drop.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn values_are_dropped_exactly_once() {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = || alive.load(Ordering::Relaxed);
    // The last receiver is dropped while values are in the buffer. That drop also drops the values.
    let (sender, receiver) = channel(4);
    (0..3).for_each(|_| assert!(sender.send(Counted::new(&alive)).is_ok()));
    assert_eq!(count(), 3);
    drop(receiver);
    assert_eq!(count(), 0);
    drop(sender);
    // The sender is dropped first, while values are in the buffer.
    let (sender, receiver) = channel(4);
    (0..3).for_each(|_| assert!(sender.send(Counted::new(&alive)).is_ok()));
    drop(sender);
    assert_eq!(count(), 3);
    drop(receiver.recv());
    assert_eq!(count(), 2);
    drop(receiver);
    assert_eq!(count(), 0);
    // Of the following sends, the first is refused, the second times out, and the third is ended by a close. Each error
    // contains the value of the send, so dropping the error drops the value.
    let (sender, receiver) = channel(0);
    drop(sender.try_send(Counted::new(&alive)));
    drop(sender.send_timeout(Counted::new(&alive), Duration::from_micros(50)));
    assert_eq!(count(), 0);
    let value = Counted::new(&alive);
    let waiting = {
        let sender = sender.clone();
        go(move || sender.send(value).map_err(drop))
    };
    yield_until_others_wait();
    sender.close();
    assert_eq!(waiting.join().unwrap(), Err(()));
    assert_eq!(count(), 0);
    assert!(receiver.recv().is_err());
}
shared_test!(values_are_dropped_exactly_once);

fn zero_sized_and_large_values_are_passed() {
    let (sender, receiver) = channel::<()>(2);
    sender.send(()).unwrap();
    sender.send(()).unwrap();
    assert_eq!(sender.try_send(()), Err(TrySendError::Full(())));
    drop(sender);
    assert_eq!(receiver.iter().count(), 2);

    let large = |n: u64| core::array::from_fn::<u64, 256, _>(|index| n * 1000 + index as u64);
    for capacity in [0, 2] {
        let (sender, receiver) = channel(capacity);
        go(move || (0..20).for_each(|n| sender.send(large(n)).unwrap())).detach();
        for n in 0..20 {
            assert!(receiver.recv() == Ok(large(n)));
        }
        assert!(receiver.recv().is_err());
    }
}
shared_test!(zero_sized_and_large_values_are_passed);

/// Values whose alignment exceeds that of stacks are passed directly and through a buffer.
fn overaligned_values_stay_aligned() {
    #[derive(Clone, Copy)]
    #[repr(align(128))]
    struct Aligned(u8);
    for capacity in [0, 3] {
        let (sender, receiver) = channel(capacity);
        go(move || (0..20).for_each(|n| assert!(sender.send(Aligned(n)).is_ok()))).detach();
        for n in 0..20 {
            let value = receiver.recv().unwrap();
            assert!(value.0 == n && (&raw const value).addr().is_multiple_of(128));
        }
    }
}
shared_test!(overaligned_values_stay_aligned);

fn never_channels_are_never_ready() {
    let (sender, receiver) = (Sender::never(), Receiver::<u32>::never());
    assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!(receiver.clone().try_recv(), Err(TryRecvError::Empty));
    assert_eq!(receiver.recv_timeout(Duration::from_micros(50)), Err(RecvTimeoutError::Timeout));
    assert_eq!(sender.send_timeout(2, Duration::from_micros(50)), Err(SendTimeoutError::Timeout(2)));
}
shared_test!(never_channels_are_never_ready);

fn channel_without_memory_is_an_error() {
    let made: Result<(Sender<u64>, Receiver<u64>), _> = try_channel(usize::MAX / 16);
    assert!(matches!(made, Err(OutOfResources)));
}
shared_test!(channel_without_memory_is_an_error);

/// Every value arrives once. The values that one receiver gets from one sender arrive in the order of their sends.
fn every_value_of_many_senders_arrives_once_in_order() {
    const SENDERS: usize = 6;
    const EACH: usize = 2000;
    for capacity in [0, 1, 7, 128] {
        let (sender, receiver) = channel(capacity);
        for number in 0..SENDERS {
            let sender = sender.clone();
            go(move || (0..EACH).for_each(|n| sender.send((number, n)).unwrap())).detach();
        }
        drop(sender);
        let receiving = spawn_each(0..5, |_| {
            let receiver = receiver.clone();
            move || {
                let received: Vec<(usize, usize)> = receiver.into_iter().collect();
                let mut next = [0; SENDERS];
                for &(number, n) in &received {
                    assert!(n >= next[number], "values of one sender overtook each other");
                    next[number] = n + 1;
                }
                received
            }
        });
        let mut received: Vec<_> = receiving.into_iter().flat_map(|handle| handle.join().unwrap()).collect();
        received.sort_unstable();
        assert!(received.into_iter().eq((0..SENDERS).flat_map(|number| (0..EACH).map(move |n| (number, n)))));
    }
}
shared_test!(every_value_of_many_senders_arrives_once_in_order);

/// Closing a nil channel panics in Go. Here the call returns `false`, and a G that waits for the channel continues to
/// wait.
fn close_of_a_nil_channel_returns_false_without_effect() {
    let sender = Sender::never();
    let waiting = sender.clone();
    let waits = go(move || waiting.send(1));
    yield_until_others_wait();
    assert!(!sender.close() && !sender.is_closed());
    assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    yield_until_others_wait();
    assert!(!waits.is_finished(), "closing has ended the wait");
    waits.detach();
}
shared_test!(close_of_a_nil_channel_returns_false_without_effect);
