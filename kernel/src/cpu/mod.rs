//! The lowest layer of the kernel: per-CPU data, locks, and the rules which say what operations are allowed in what
//! context.

pub(crate) mod contexts;
pub mod cpus;
mod id;
#[expect(unsafe_code, reason = "reaches per-CPU data through GS")]
pub(crate) mod local;
#[expect(unsafe_code, reason = "reads per-CPU words through GS")]
pub mod percpu;
#[expect(unsafe_code, reason = "locks")]
pub mod sync;
