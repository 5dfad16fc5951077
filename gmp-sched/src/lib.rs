//! Go's scheduler as a crate: Gs (flows of control with stacks of their own) run on Ms (threads of the platform) that
//! hold a P (a licence to run, with a local run queue). The crate is `no_std` and independent of the hardware. What it
//! needs from the computer or operating system is the [`platform::Platform`] trait. All state is in scheduler objects.
//! The exceptions are two static counters, from which schedulers and bubbles get their numbers, and the state that the
//! platforms `native` and `sim` keep. [`porting`] is the guide to using the crate in another kernel.
//!
//! The source is a stack of layers, one folder each, from the ground up. In the repository, `docs/files.md` lists their
//! files, and for each of them the functions of Go's runtime that do the same.
//!
//! | layer | concept | public modules |
//! |---|---|---|
//! | `base` | data structures that know no G, points in time, errors | [`run_queue`] |
//! | [`context`] | the context switch | |
//! | [`kthread`] | kernel threads, the level below Ms | |
//! | `record` | scheduling latency, traces of events, counters | [`mod@latency`], [`mod@trace`] |
//! | [`platform`], [`policy`] | what the scheduler needs from the computer; the questions that a program's own policy answers | |
//! | `entities` | G, M, P and what they share | [`goroutine`], [`machine`], [`processor`], [`scheduler`] |
//! | `engine` | what runs next; how a G leaves its M; who is woken; system calls, preemption | [`mod@yield_now`], [`idle`], [`preempt`], [`sysmon`], [`syscall`] |
//! | `refinements` | what is attached to the engine | [`stop_the_world`], [`procs`], [`lock_os_thread`], [`by_policy`] |
//! | [`interrupt_return`] | asynchronous preemption on the return from an interrupt, for kernels | |
//! | `lifecycle` | beginning and end of a G | [`mod@spawn`], [`join`], [`mod@exit`] |
//! | `library` | what programs wait with | [`chan`], [`mod@select`], [`sync`], [`mod@time`], [`cancel`], [`mod@scope`], [`coroutine`], [`future`], [`device_signals`], [`mod@sleep`], [`mod@park`] |
//! | `report` | the state of a running scheduler | [`schedtrace`], [`snapshot`], [`debugger`], [`stack_overflow`] |
//! | [`synctest`] | bubbles with a clock of their own, for tests | |
//! | `native`, `sim` | the platform of operating-system threads; a deterministic simulation of both levels, and an exploration of all runs of small programs (feature `std`) | |
//!
//! `unsafe` is allowed only where a lint exception states the reason: the context switch and the contents of stacks
//! (`context`, `entities::free_stacks`, `engine::switch`, `interrupt_return`, `refinements::{exchange_stacks, poison}`,
//! `lifecycle`, `kthread`), storage for closures and results (`entities::inline_body`), stored references
//! (`base::reference`), children that borrow from their parent (`scope`), values that are passed (`chan`, `select`),
//! values under locks (`sync::{mutex, rwlock, condvar, limited, once_cell}`), the platforms (`native`, `sim`), and
//! contracts for callers (`platform`, [`park::ready`], [`exit::abandon`], [`machine::NewMachine`]). The scheduling
//! policy (picking, stealing, idling, queues, timers, preemption, sysmon) contains no `unsafe` code.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `synctest` | yes | [`synctest`], bubbles. Without it nothing is in a bubble, and what the documentation says about bubbles does not apply |
//! | `refinements` | yes | what is attached to the mechanisms of `engine`, at the hooks that `engine/hooks.rs` lists: [`lock_os_thread`], [`stop_the_world`], [`procs`], traces, spans, latencies, the background G, the reuse of stacks. Without it the textbook is left; `native` and `sim` run it |
//! | `extras` | yes | the part of the library on which nothing else depends: [`coroutine`], [`future`]; `ErrorGroup`, `Pool`, `ReadMostlyRwLock` and `SingleFlight` in `sync`; `TryScope` in `scope` |
//! | `std` | no | `native` and `sim` |
//! | `control-words` | no | each switch keeps the floating-point control words, for programs with code of other languages that changes them |
//!
#![cfg_attr(feature = "extras", doc = "[`coroutine`]: coroutine\n[`future`]: future")]
#![cfg_attr(not(feature = "extras"), doc = "[`coroutine`]: #features\n[`future`]: #features")]
#![cfg_attr(feature = "synctest", doc = "[`synctest`]: synctest")]
#![cfg_attr(not(feature = "synctest"), doc = "[`synctest`]: #features")]
// With `--cfg gmp_loom` only the models are compiled. The models are tests, so a build without tests compiles nothing.
#![cfg(any(test, not(gmp_loom)))]
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(
    not(feature = "refinements"),
    expect(dead_code, unreachable_pub, reason = "what only refinements use of the layers below them")
)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod base;
#[expect(unsafe_code, reason = "switches stacks")]
pub mod context;
mod engine;
mod entities;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "adopts the pin that a handler raises, and its contracts")]
pub mod interrupt_return;
pub mod kthread;
mod library;
mod lifecycle;
#[cfg(gmp_loom)]
mod models;
#[cfg(feature = "std")]
pub mod native;
pub mod platform;
mod platform_aliases;
pub mod policy;
/// Tests the example in the guide to policies.
#[cfg(doctest)]
#[doc = include_str!("../../docs/manual/policies.md")]
mod policies {}
/// Tests the example in README.md, the file that package registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
#[doc = include_str!("porting.md")]
pub mod porting {}
mod record;
#[cfg(feature = "refinements")]
mod refinements;
mod report;
#[cfg(feature = "std")]
pub mod sim;
#[cfg(feature = "synctest")]
pub mod synctest;
#[cfg(all(test, feature = "std"))]
mod tests;

#[doc = include_str!("record/trace.md")]
pub mod trace {
    #[cfg(feature = "refinements")]
    #[doc(inline)]
    pub use crate::__span as span;
    pub use crate::record::cpu_tracer::CpuTracer;
    pub use crate::record::trace::{Event, EventKind, PreemptReason, Track, TrackTrace};
    pub use crate::record::trace_memory as memory;
    #[cfg(feature = "refinements")]
    pub use crate::refinements::spans::{Span, mark, span};
}

pub use base::run_queue;
pub use engine::{idle, preempt, syscall, sysmon, yield_now};
pub use entities::name::{NAME_LIMIT, Name};
pub use entities::{goroutine, machine, processor, scheduler};
pub use library::{cancel, chan, device_signals, park, scope, select, sleep, sync, time};
#[cfg(feature = "extras")]
pub use library::{coroutine, future};
pub use lifecycle::join::{JoinError, JoinHandle, Panic};
pub use lifecycle::storage::BODY_LIMIT;
pub use lifecycle::{exit, join, spawn};
pub use record::counters::Counts;
pub use record::latency;
#[cfg(feature = "refinements")]
pub use refinements::{by_policy, lock_os_thread, procs, stop_the_world};
pub use report::{debugger, schedtrace, snapshot, stack_overflow};
