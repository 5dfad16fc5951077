//! Tests of the command `boot`, from its user's point of view.

mod child;
mod debugger;
#[cfg(target_os = "linux")]
mod lifetime;
mod limits;
mod mistakes;
mod new;
mod outside;
mod running;
