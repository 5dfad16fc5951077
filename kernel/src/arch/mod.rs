//! What depends on the processor.

pub(crate) mod x86_64;
