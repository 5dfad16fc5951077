//! The lowest layer of the kernel: per-CPU data, locks, and the check which operations are allowed in which context.

pub(crate) mod contexts;
pub mod cpus;
mod id;
#[expect(unsafe_code, reason = "reaches per-CPU data through GS")]
pub(crate) mod local;
#[expect(unsafe_code, reason = "reads per-CPU words through GS")]
pub mod percpu;
#[expect(unsafe_code, reason = "locks")]
pub mod sync;
