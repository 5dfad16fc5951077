//! The scheduler in the kernel: its platform, and the kernel threads that its Ms run on.

pub(crate) mod activity;
pub(crate) mod blocking;
#[expect(unsafe_code, reason = "reads the stack of the calling G")]
mod call_stack;
pub(crate) mod cpu_trace;
pub(crate) mod goroutines;
pub(crate) mod idle;
#[expect(unsafe_code, reason = "promises what kernel threads rely on")]
pub(crate) mod kthread;
#[expect(unsafe_code, reason = "promises what the scheduler relies on")]
pub mod platform;
#[expect(unsafe_code, reason = "calls what must be called on a thread's stack")]
pub(crate) mod preemption;
#[expect(unsafe_code, reason = "starts the scheduler, and the idle loop of each CPU")]
pub(crate) mod startup;
pub(crate) mod storm;
mod sysmon;
#[expect(unsafe_code, reason = "promises what kernel threads rely on")]
mod thread_cpu;
