//! Tests of the command `boot`. They use it as a user does.

mod child;
mod compare;
mod debugger;
mod firmware_code;
mod full;
mod input;
#[cfg(target_os = "linux")]
mod lifetime;
mod limits;
mod mistakes;
mod new;
mod on_host;
mod output_devices;
mod outside;
mod paths;
mod profile;
mod running;
mod schedtrace;
#[path = "../../../thread-tests/tests/schedtrace_lines/mod.rs"]
mod schedtrace_lines;
mod top;
mod trace;
