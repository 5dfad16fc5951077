//! Channels, locks, timers and contexts, for programs. The library is built on the engine. The engine does not depend
//! on the library.

pub mod cancel;
pub mod chan;
#[cfg(feature = "extras")]
pub mod coroutine;
pub mod device_signals;
#[cfg(feature = "extras")]
pub mod future;
pub(crate) mod limit;
pub mod park;
pub mod scope;
pub mod select;
pub mod sleep;
pub mod sync;
pub mod time;
pub(crate) mod wait_end;
pub(crate) mod waiter;
