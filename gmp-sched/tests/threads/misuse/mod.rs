//! Misuses by safe code outside of the crate: each ends in an error or a panic, with nothing sent twice, lost or left
//! locked.
#![deny(unsafe_code)]

mod blocking;
mod channels;
mod commits;
mod selects;
