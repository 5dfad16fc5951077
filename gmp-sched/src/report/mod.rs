//! What a running scheduler looks like from outside: for debuggers, as text, as a picture.

pub mod debugger;
pub(crate) mod detail;
pub(crate) mod picture;
