//! Reports on a running scheduler: for debuggers, as text, as a timeline.

pub mod debugger;
pub(crate) mod goroutine_list;
pub(crate) mod schedtrace;
pub(crate) mod timeline;
