//! Reports of what the kernel is doing: on a panic or an exception, on request, periodically, and when a CPU seems to
//! be stuck.

#[expect(unsafe_code, reason = "reads the stacks of stopped CPUs")]
pub(crate) mod backtrace;
pub(crate) mod exception;
pub(crate) mod inspection;
pub(crate) mod isolation;
pub(crate) mod panic;
pub(crate) mod publish;
pub(crate) mod schedtrace;
#[expect(unsafe_code, reason = "keeps a place as a pointer")]
pub(crate) mod snapshot;
pub mod watchdog;
