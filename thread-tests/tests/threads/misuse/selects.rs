//! Arms of a select that are tried again after they have sent their value: an arm of `send` panics, and an arm of
//! `send_from` sends nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gmp_sched::chan::TryRecvError;
use gmp_sched::native::channel;
use gmp_sched::select::{Arm, Select, send, send_from};

/// The test calls hidden functions, which only the `select!` macro should call.
#[test]
fn arm_that_sent_its_value_panics_when_tried_again() {
    let value = Arc::new(());
    let (sender, receiver) = channel(4);
    let mut sending = send(&sender, value.clone());
    assert_eq!(Arm::try_now(&mut sending), Some(Ok(())));
    let again = catch_unwind(AssertUnwindSafe(|| Arm::try_now(&mut sending)));
    assert!(again.is_err(), "sent twice");
    drop(sending);
    assert_eq!(receiver.recv().as_ref(), Ok(&value));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn arm_whose_option_is_empty_sends_nothing() {
    let value = Arc::new(());
    let (sender, receiver) = channel(4);
    let mut option = Some(value.clone());
    let mut sending = send_from(&sender, &mut option);
    assert_eq!(Select::new(&mut [sending.case()]).poll(), Some(0));
    assert_eq!(Arm::try_now(&mut sending), None);
    drop(sending);
    assert_eq!(option, None);
    assert_eq!(receiver.recv().as_ref(), Ok(&value));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(Arc::strong_count(&value), 1);
}
