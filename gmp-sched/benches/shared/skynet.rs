//! A tree of Gs with ten children each. The leaves send their numbers to their parents, and each parent sends the sum of
//! what it receives to its own parent. The tests run this program, too.

use super::platform::{Sender, channel, go};

/// Runs a tree with `leaves` leaves, a power of ten, and returns the sum of their numbers, which begin at 0.
pub(crate) fn sum_of_leaves(leaves: u64) -> u64 {
    let (sender, receiver) = channel(0);
    go(move || node(sender, 0, leaves)).detach();
    receiver.recv().expect("the tree sends its sum")
}

/// The root of a tree with `leaves` leaves, the first of which has the number `first`.
fn node(parent: Sender<u64>, first: u64, leaves: u64) {
    if leaves == 1 {
        parent.send(first).expect("it waits");
        return;
    }
    let (sender, receiver) = channel(0);
    for child in 0..10 {
        let sender = sender.clone();
        go(move || node(sender, first + child * (leaves / 10), leaves / 10)).detach();
    }
    parent.send((0..10).map(|_| receiver.recv().expect("ten of them")).sum()).expect("it waits");
}
