//! The command `boot` as a user meets it.

mod child;
mod debugger;
#[cfg(target_os = "linux")]
mod lifetime;
mod limits;
mod mistakes;
mod outside;
mod running;
