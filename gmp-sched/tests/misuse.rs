//! What safe code may do wrong, from outside of the crate: it ends in an error or a panic, with nothing sent twice, lost or
//! left locked.
#![cfg(not(gmp_loom))]
#![deny(unsafe_code)]

#[path = "misuse/blocking.rs"]
mod blocking;
#[path = "misuse/channels.rs"]
mod channels;
#[path = "misuse/commits.rs"]
mod commits;
#[path = "misuse/selects.rs"]
mod selects;
mod threads;
