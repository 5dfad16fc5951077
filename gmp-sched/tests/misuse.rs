//! What safe code may do wrong, from outside of the crate: it ends in an error or a panic, with nothing sent twice, lost or
//! left locked.
#![cfg(not(gmp_loom))]
#![forbid(unsafe_code)]

#[path = "misuse/selects.rs"]
mod selects;
