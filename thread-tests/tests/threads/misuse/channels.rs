//! Channels whose capacity is too large. A channel stores its length and three flags in one word, so a capacity of an
//! eighth of the range of `usize` or more is refused.

use std::panic::catch_unwind;

use gmp_sched::chan::{TryRecvError, try_channel};
use gmp_sched::native::{Native, channel};
use gmp_sched::platform::OutOfResources;

#[test]
fn uncountable_capacity_is_refused() {
    for capacity in [usize::MAX, usize::MAX / 2, usize::MAX / 8 + 1] {
        let made = try_channel::<(), Native>(capacity);
        assert_eq!(made.err(), Some(OutOfResources), "a channel for {capacity} values");
        assert!(catch_unwind(|| channel::<()>(capacity)).is_err());
    }
}

/// For zero-sized values, making a channel takes neither memory for the buffer nor time to initialise its entries.
#[test]
fn largest_capacity_of_zero_sized_values_works() {
    let (sender, receiver) = channel::<()>(usize::MAX / 8);
    assert_eq!(sender.capacity(), usize::MAX / 8);
    for _ in 0..3 {
        sender.try_send(()).unwrap();
    }
    assert_eq!(receiver.len(), 3);
    for _ in 0..3 {
        receiver.try_recv().unwrap();
    }
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}
