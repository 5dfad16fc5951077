//! Well-known Go programs.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::select;

use super::platform::{Chan, MANY, Receiver, Sender, channel, go, yield_now};
use super::several::{join_all, spawn_each};
use super::skynet::sum_of_leaves;

/// A chain of Gs, each of which adds one to the number that it receives from the right, and sends the sum to the left.
fn daisy_chain() {
    let (leftmost, result) = channel(0);
    let mut left: Sender<usize> = leftmost;
    for _ in 0..MANY {
        let (sender, right) = channel(0);
        go(move || left.send(1 + right.recv().unwrap()).unwrap()).detach();
        left = sender;
    }
    go(move || left.send(0).unwrap()).detach();
    assert_eq!(result.recv(), Ok(MANY));
}
shared_test!(daisy_chain);

/// A tree of Gs with ten children each, as in the benchmark.
fn skynet() {
    let leaves = if MANY > 10_000 { 10_000 } else { 1000 };
    assert_eq!(sum_of_leaves(leaves), leaves * (leaves - 1) / 2);
}
shared_test!(skynet);

/// C. A. R. Hoare's bounded buffer: a G between producer and consumer. It receives while it has room, and sends while
/// it has a value.
fn bounded_buffer() {
    const ROOM: usize = 10;
    fn buffer(from: Receiver<u32>, to: Sender<u32>) {
        let (mut held, mut open) = (VecDeque::new(), true);
        let (no_source, no_sink) = (Receiver::never(), Sender::never());
        while open || !held.is_empty() {
            let source = if open && held.len() < ROOM { &from } else { &no_source };
            let (sink, front) = held.front().map_or((&no_sink, 0), |&front| (&to, front));
            select! {
                recv(source) -> value => match value {
                    Ok(value) => held.push_back(value),
                    Err(_) => open = false,
                },
                send(sink, front) -> sent => {
                    sent.unwrap();
                    held.pop_front();
                }
            }
        }
    }
    let (producer, from) = channel(0);
    let (to, consumer) = channel(0);
    go(move || buffer(from, to)).detach();
    for n in 0..ROOM as u32 {
        producer.send(n).unwrap();
    }
    // The buffer is full, so the G `more` waits for the consumer.
    let more = go(move || (ROOM as u32..500).for_each(|n| producer.send(n).unwrap()));
    (0..10).for_each(|_| yield_now());
    assert!(!more.is_finished());
    assert!(consumer.iter().eq(0..500));
    more.join().unwrap();
}
shared_test!(bounded_buffer);

/// E. W. Dijkstra's dining philosophers, who take the fork with the lower number first.
fn dining_philosophers() {
    const SEATS: usize = 5;
    let forks: Vec<_> = (0..SEATS).map(|_| Chan::new(1)).collect();
    let taken: Arc<Vec<AtomicBool>> = Arc::new((0..SEATS).map(|_| AtomicBool::new(false)).collect());
    forks.iter().for_each(|fork| fork.send(()).unwrap());
    join_all(spawn_each(0..SEATS, |seat| {
        let (forks, taken) = (forks.clone(), taken.clone());
        move || {
            let (left, right) = (seat, (seat + 1) % SEATS);
            let (first, second) = (left.min(right), left.max(right));
            for meal in 0..200 {
                for fork in [first, second] {
                    forks[fork].recv().unwrap();
                    assert!(!taken[fork].swap(true, Ordering::Relaxed), "two eat with one fork");
                }
                if meal % 3 == 0 {
                    yield_now();
                }
                for fork in [first, second] {
                    taken[fork].store(false, Ordering::Relaxed);
                    forks[fork].send(()).unwrap();
                }
            }
        }
    }));
}
shared_test!(dining_philosophers);
