//! The life of a G: how it is made, what it runs, how its result is fetched, how it ends.

pub(crate) mod children;
pub(crate) mod closure;
pub(crate) mod deferred;
pub mod exit;
pub(crate) mod finish;
pub(crate) mod free_slots;
pub mod join;
pub(crate) mod new_goroutine;
mod shut_down;
pub mod spawn;
#[cfg(feature = "refinements")]
mod start_background;
pub(crate) mod start_scheduler;
pub(crate) mod storage;
