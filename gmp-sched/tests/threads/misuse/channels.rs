//! Channels for more values than can be counted.

use std::panic::catch_unwind;

use gmp_sched::chan::{Receiver, Sender, TryRecvError, try_channel};
use gmp_sched::native::{Native, channel};
use gmp_sched::platform::OutOfResources;

#[test]
fn capacity_that_cannot_be_counted_is_refused() {
    for capacity in [usize::MAX, usize::MAX / 2, usize::MAX / 4 + 1] {
        let made: Result<(Sender<(), Native>, Receiver<(), Native>), _> = try_channel(capacity);
        assert_eq!(made.err(), Some(OutOfResources), "a channel for {capacity} values");
        assert!(catch_unwind(|| channel::<()>(capacity)).is_err());
    }
}

/// Values without a size need no memory, and no time to make a place for each.
#[test]
fn largest_capacity_is_kept() {
    let (sender, receiver) = channel::<()>(usize::MAX / 4);
    assert_eq!(sender.capacity(), usize::MAX / 4);
    for _ in 0..3 {
        sender.try_send(()).unwrap();
    }
    assert_eq!(receiver.len(), 3);
    for _ in 0..3 {
        receiver.try_recv().unwrap();
    }
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}
