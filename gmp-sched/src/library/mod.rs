//! What programs wait with: channels, locks, timers, contexts. Built on the engine, which knows nothing of it.

pub mod cancel;
pub mod chan;
pub mod coroutine;
pub mod future;
pub mod scope;
pub mod select;
pub mod sync;
pub mod time;
pub(crate) mod waiter;
