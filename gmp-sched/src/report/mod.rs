//! Reports on a running scheduler: for debuggers, as text, as a timeline.

pub mod debugger;
pub(crate) mod goroutine_list;
pub mod schedtrace;
pub mod snapshot;
pub mod stack_overflow;
#[cfg(feature = "refinements")]
pub(crate) mod timeline;
