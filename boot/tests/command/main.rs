//! The command `boot` as a user meets it.

#[cfg(target_os = "linux")]
mod lifetime;
mod mistakes;
mod outside;
mod running;
