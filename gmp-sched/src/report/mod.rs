//! What a running scheduler looks like from outside: for debuggers, as text, as a time line.

pub mod debugger;
pub(crate) mod schedtrace;
pub(crate) mod timeline;
