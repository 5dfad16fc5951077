//! The command `boot` as a user meets it.

mod debugger;
#[cfg(target_os = "linux")]
mod lifetime;
mod mistakes;
mod outside;
mod running;
