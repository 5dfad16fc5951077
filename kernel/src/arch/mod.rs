//! What depends on the processor.

pub mod x86_64;
