//! What is attached to the mechanisms of `engine`, at the hooks that `engine::hooks` lists. Each file is one
//! refinement. The engine compiles and runs without them (feature `refinements`).

pub(crate) mod background;
pub mod by_policy;
pub(crate) mod exchange_stacks;
pub mod lock_os_thread;
pub(crate) mod lone_yields;
pub(crate) mod poison;
#[cfg(any(feature = "std", gmp_loom))]
pub(crate) mod preempt_in_place;
pub mod procs;
pub(crate) mod retire;
pub(crate) mod sampling;
pub(crate) mod slices_on_threads;
pub(crate) mod spans;
pub mod stop_the_world;
pub(crate) mod tracing;
pub(crate) mod windows;
