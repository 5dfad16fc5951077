//! Cancellation: contexts, which signal that work is no longer wanted. Go: package `context`. (The module `context` of
//! this crate is the context switch.)
//!
//! A [`Context`] may be cancelled, have a deadline, and carry values. A derived context is cancelled with its parent. A
//! context has no G, and even with a deadline it has no timer. Code that checks the deadline compares the deadline with
//! the clock, and a G that waits with a context uses the G's own timer. So a request that ends before its deadline
//! costs only the heap cell of its context. (Exceptions: [`after_func`](Context::after_func), and
//! [`done`](Context::done) of a context with a deadline. Both prepare a G with a timer.)
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
