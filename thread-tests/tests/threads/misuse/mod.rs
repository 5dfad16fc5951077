//! Misuses by safe code outside of the crate. Each ends in an error or a panic, or ends the process with a message. No
//! value is sent twice or lost, and no lock stays locked.
#![deny(unsafe_code)]

mod blocking;
#[cfg(all(feature = "extras", feature = "synctest"))]
mod callers;
mod channels;
mod selects;
