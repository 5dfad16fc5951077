//! Functions that return the message of a panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body`, which must panic, and returns the message of the panic.
#[track_caller]
pub(crate) fn panic_of<T>(body: impl FnOnce() -> T) -> String {
    message(catch_unwind(AssertUnwindSafe(|| drop(body()))).expect_err("it does not panic"))
}

/// The message of a panic with this payload.
#[track_caller]
pub(crate) fn message(payload: Box<dyn Any + Send>) -> String {
    payload.downcast::<&str>().map_or_else(|other| *other.downcast::<String>().unwrap(), |text| text.to_string())
}
