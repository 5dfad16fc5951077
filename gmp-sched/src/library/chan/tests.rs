//! Tests of the check of the channel's invariants.

use alloc::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::string::String;

use super::header::{Header, Held, Side};
use crate::entities::bubble::BubbleRef;
use crate::entities::waiter::Waiter;
use crate::native::Native;
use crate::platform::Pinned;

/// Performs `operation` under the lock of a new channel with room for one value. Returns the message of the panic
/// when the lock is released, or an empty string if there is no panic.
fn release_after(operation: impl FnOnce(&Header<Native>, &Held<'_, Native>)) -> String {
    let header = Header::<Native>::new(1, BubbleRef::none());
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let held = header.lock(&Pinned::of_scheduler());
        operation(&header, &held);
    }));
    let Err(message) = panic else { return String::new() };
    match message.downcast::<String>() {
        Ok(formatted) => *formatted,
        Err(message) => String::from(*message.downcast::<&str>().unwrap()),
    }
}

fn enqueue(header: &Header<Native>, side: Side) {
    header.queue(side).push_back(Box::leak(Box::new(Waiter::new())));
}

#[test]
fn waits_that_the_buffer_requires_are_accepted() {
    assert_eq!(release_after(|header, _| enqueue(header, Side::Receive)), "");
    let full = release_after(|header, held| {
        held.change_len(1);
        enqueue(header, Side::Send);
    });
    assert_eq!(full, "");
}

#[test]
fn broken_invariant_is_found_when_the_lock_is_released() {
    let both = release_after(|header, _| {
        enqueue(header, Side::Send);
        enqueue(header, Side::Receive);
    });
    assert_eq!(both, "senders and receivers wait for the same channel");
    let closed = release_after(|header, held| {
        let _ = held.close();
        enqueue(header, Side::Receive);
    });
    assert_eq!(closed, "a G waits for a closed channel");
    let overfull = release_after(|_, held| held.change_len(2));
    assert_eq!(overfull, "2 values are in a buffer for 1");
    let value = release_after(|header, held| {
        enqueue(header, Side::Receive);
        held.change_len(1);
    });
    assert_eq!(value, "a receiver waits although the buffer has a value");
    let room = release_after(|header, _| enqueue(header, Side::Send));
    assert_eq!(room, "a sender waits although the buffer has room");
}
