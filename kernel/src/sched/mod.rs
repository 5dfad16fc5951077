//! The scheduler on this machine: its platform, and the kernel threads that its Ms run on.

pub(crate) mod activity;
pub(crate) mod blocking;
pub(crate) mod idle;
#[expect(unsafe_code, reason = "promises what kernel threads rely on")]
pub(crate) mod kthread;
#[expect(unsafe_code, reason = "promises what the scheduler relies on")]
pub mod platform;
pub(crate) mod storm;
