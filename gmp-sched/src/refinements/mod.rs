//! What is attached to the mechanisms of `engine`: what happens only sometimes, or only for those who look.

pub(crate) mod background;
mod call_stacks;
pub(crate) mod exchange_stacks;
pub mod lock_os_thread;
pub(crate) mod poison;
pub mod procs;
pub(crate) mod sampling;
pub(crate) mod spans;
pub mod stop_the_world;
pub(crate) mod trace_events;
pub(crate) mod tracing;
pub(crate) mod windows;
