//! What the commands `cargo lab` and `cargo book` share.
#![forbid(unsafe_code)]

pub mod error;
