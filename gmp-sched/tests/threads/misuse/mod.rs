//! What safe code may do wrong, from outside of the crate: it ends in an error or a panic, with nothing sent twice, lost or
//! left locked.
#![deny(unsafe_code)]

mod blocking;
mod channels;
mod commits;
mod selects;
