//! Tests of private items that need a platform. They run on threads. A test that needs no platform is in the file of
//! what it tests.

mod cancel;
mod free_slots;
#[cfg(feature = "extras")]
mod future;
mod global_queue;
mod processor;
#[cfg(feature = "refinements")]
mod procs;
mod scope;
mod steal;
mod take_global;
#[cfg(feature = "extras")]
mod try_scope;
mod wait_queue;
#[cfg(feature = "refinements")]
mod windows;
