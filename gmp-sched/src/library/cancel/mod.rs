//! Cancellation: contexts, which signal that work is no longer wanted. Go: package `context`. (The module `context` of
//! this crate is the context switch.)
//!
//! A [`Context`] may be cancelled, have a deadline, and carry values. A derived context is cancelled with its parent. A
//! context has no G. Even with a deadline it has no timer (unless [`done`](Context::done) or
//! [`after_func`](Context::after_func) was called, which prepare a G with a timer): code that checks the deadline
//! compares it with the clock, and a G that waits with a context uses its own timer. So a request that ends before its
//! deadline costs only two heap cells.
//!
//! # Ending a wait
//!
//! A [`Limit`] says how long a blocking operation may wait: until a deadline, until a context is done, or until the
//! earlier of the two. If there is a context, the G queues a second waiter on the context, with the same wait
//! generation as the first waiter. The waker that claims the generation first ends the wait (see `waiter`).

mod context;
mod done;
mod function;
mod handle;

pub use context::Context;
pub use function::ContextFunction;
pub use handle::CancelHandle;

pub use crate::library::limit::{Cause, ContextError, Limit};
