//! Tests of the command `boot`. They use it as a user does.

mod child;
mod debugger;
#[cfg(target_os = "linux")]
mod lifetime;
mod limits;
mod mistakes;
mod new;
mod outside;
mod running;
