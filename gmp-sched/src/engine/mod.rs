//! The mechanisms of scheduling: what runs next, how a G leaves its M and comes back, and which M is woken.
//!
//! A comment `// ANCHOR: name` marks lines that the book shows, and that are empty at the beginning of a lab (see
//! `labs/*/lab.toml`).

pub(crate) mod deadlock;
pub(crate) mod enqueue;
pub(crate) mod handoff;
#[cfg_attr(not(feature = "refinements"), path = "../refinements/none.rs")]
pub(crate) mod hooks;
pub mod idle;
pub(crate) mod machines;
pub(crate) mod park;
pub(crate) mod pick;
pub(crate) mod poll;
pub mod preempt;
pub(crate) mod ready;
pub(crate) mod schedule;
pub(crate) mod slice;
pub(crate) mod steal;
pub(crate) mod switch;
pub mod syscall;
pub(crate) mod syscall_return;
pub mod sysmon;
pub(crate) mod take_global;
pub(crate) mod timekeeper;
pub(crate) mod timers;
pub(crate) mod urgent;
pub(crate) mod wake;
pub mod yield_now;
