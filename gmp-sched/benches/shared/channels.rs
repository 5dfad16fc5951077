//! Channels: messages between two Gs, between many, around a ring, and up a tree.

use core::array;
use core::hint::black_box;

use super::report::measure;
use super::skynet::sum_of_leaves;
use crate::platform::{Chan, REPETITIONS, channel, go, select};

/// Round trips between two Gs over two unbuffered channels.
pub(super) fn ping_pong() {
    const ROUNDS: u64 = 60_000 * REPETITIONS;
    let (there, here) = (Chan::new(0), Chan::new(0));
    let (to, from) = (there.clone(), here.clone());
    let other = go(move || {
        for _ in 0..ROUNDS {
            let value: u64 = to.recv().expect("open");
            from.send(value).expect("open");
        }
    });
    measure("chan_pingpong", ROUNDS, || {
        for round in 0..ROUNDS {
            there.send(round).expect("open");
            here.recv().expect("open");
        }
        other.join().expect("no panic");
    });
}

/// Messages from four senders to four receivers over a channel with capacity 128.
pub(super) fn many_to_many() {
    const EACH: u64 = 20_000 * REPETITIONS;
    measure("chan_mpmc_4x4_cap128", 4 * EACH, || {
        let (sender, receiver) = channel(128);
        for _ in 0..4 {
            let sender = sender.clone();
            go(move || (0..EACH).for_each(|n| sender.send(n).expect("receivers"))).detach();
        }
        drop(sender);
        let receivers: [_; 4] = array::from_fn(|_| {
            let receiver = receiver.clone();
            go(move || receiver.into_iter().sum::<u64>())
        });
        let sum: u64 = receivers.into_iter().map(|handle| handle.join().expect("no panic")).sum();
        assert_eq!(sum, 2 * EACH * (EACH - 1));
    });
}

/// One G receives by selects over four unbuffered channels. Each channel has one sender.
pub(super) fn select_of_four() {
    const EACH: u64 = 10_000 * REPETITIONS;
    let chans: [Chan<u64>; 4] = array::from_fn(|_| Chan::new(0));
    measure("select_4", 4 * EACH, || {
        for chan in &chans {
            let sender = chan.sender().clone();
            go(move || (0..EACH).for_each(|n| sender.send(n).expect("a receiver"))).detach();
        }
        let [one, two, three, four] = chans.each_ref().map(Chan::receiver);
        for _ in 0..4 * EACH {
            select! {
                recv(one) -> value => black_box(value),
                recv(two) -> value => black_box(value),
                recv(three) -> value => black_box(value),
                recv(four) -> value => black_box(value),
            }
            .expect("open");
        }
    });
}

/// A token goes around a ring of 1000 Gs, which are linked by unbuffered channels. A hop from one G to the next is one
/// operation.
pub(super) fn ring() {
    const HOPS: u64 = 200_000 * REPETITIONS;
    let (first, mut receiver) = channel::<u64>(0);
    for _ in 0..999 {
        let (sender, next) = channel(0);
        go(move || receiver.into_iter().for_each(|token| sender.send(token).expect("the ring is closed"))).detach();
        receiver = next;
    }
    measure("ring_1000", HOPS, || {
        let starter = first.clone();
        go(move || starter.send(HOPS).expect("the ring is closed")).detach();
        for token in receiver.iter() {
            let left = token.saturating_sub(1000);
            if left == 0 {
                break;
            }
            first.send(left).expect("the ring is closed");
        }
    });
}

/// Runs a tree of Gs with ten children each and 100,000 leaves. The first run also allocates the stacks, and the later
/// runs reuse them.
pub(super) fn skynet() {
    for (name, runs) in [("skynet_100k_cold", 1), ("skynet_100k", REPETITIONS)] {
        measure(name, runs * 111_111, || {
            (0..runs).for_each(|_| assert_eq!(sum_of_leaves(100_000), 4_999_950_000));
        });
    }
}
