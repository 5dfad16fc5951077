//! The mechanisms of scheduling: what runs next, how a G leaves its M and comes back, and which M is woken.

pub(crate) mod arm_timers;
pub mod by_policy;
pub(crate) mod current;
pub(crate) mod deadlock;
pub mod device_signals;
pub(crate) mod enqueue;
pub(crate) mod free_slots;
pub(crate) mod handoff;
#[cfg_attr(not(feature = "refinements"), path = "no_hooks.rs")]
pub(crate) mod hooks;
pub mod idle;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "adopts the pin that a handler raises, and its contracts")]
pub mod interrupt_return;
#[cfg(gmp_loom)]
pub(crate) mod loom_wait;
pub(crate) mod machines;
pub mod park;
pub(crate) mod pick;
pub(crate) mod poll;
pub mod preempt;
pub(crate) mod ready;
pub(crate) mod schedule;
pub mod sleep;
pub(crate) mod slice;
pub(crate) mod steal;
pub(crate) mod switch;
pub mod syscall;
pub(crate) mod syscall_return;
pub mod sysmon;
pub(crate) mod take_global;
pub(crate) mod timekeeper;
pub(crate) mod urgent;
pub(crate) mod windows;
pub mod yield_now;
