//! Go's scheduler as a crate: Gs (flows of control with stacks of their own) run on Ms (threads of the platform) that
//! hold a P (a licence to run, with a local run queue). The crate is `no_std` and independent of the hardware. What it
//! needs from the computer or operating system is the [`platform::Platform`] trait. All state is in scheduler objects.
//! The exceptions are two static counters, from which schedulers and bubbles get their numbers, and the state that the
//! platforms `native` and `sim` keep. [`porting`] is the guide to using the crate in another kernel.
//!
//! The source is a stack of layers, one folder each, from the ground up:
//!
//! | layer | module | concept | Go (runtime, go1.27) |
//! |---|---|---|---|
//! | `base` | [`run_queue`] | local ring and `runnext` | `runqput`, `runqget`, `runqgrab` |
//! | | `points`, `error`, `instant`, `id` | points at which a simulator may switch; errors; points in time; the ids of Gs, Ms and Ps | |
//! | | `timing_wheel`, `ranked_queue`, `list`, `reference`, `spin_lock`, `atomic` | hierarchical timing wheel, intrusive priority queue, intrusive FIFO, atomic references, the atomics and locks of all protocols | `gQueue` |
//! | | `under_loom` | what differs in the loom models | |
//! | [`context`] | | the context switch | `gogo`, `mcall`, `gosave` |
//! | [`kthread`] | | kernel threads, the level below Ms | (the operating system) |
//! | `record` | [`mod@latency`], [`mod@trace`], `cpu_tracer`, `counters` | scheduling latency, traces of events on Ps and CPUs, counters of each P | `timeToRun`, `runtime/trace` |
//! | [`platform`] | | what the scheduler needs from the computer or operating system | `acquirem`, `releasem` |
//! | [`policy`] | | the questions that a program's own scheduling policy answers; priorities with aging, earliest deadline first | |
//! | `entities` | [`goroutine`], [`machine`], [`processor`], [`scheduler`], `shared` | G, M, P and what they share | `g`, `m`, `p`, `schedt` |
//! | | `current`, `global_queue`, `free_list`, `free_stacks` | the calling G, its M and its P; the global run queue; dead Gs, with and without a stack; releasing their stacks | `getg`, `schedt.runq`, `schedt.gFree` |
//! | | `status`, `wait_reason` | the status of a G, the reason of its wait | `waitReason` |
//! | | `events` | recording the events of traces | `traceEvent` |
//! | | `timers`, `waiter`, `signal`, `current_slice`, `current_call`, `sampler`, `locked`, `world_stop`, `bubble` | the data of these mechanisms in Gs, Ms, Ps and the scheduler | `timer`, `sudog`, `pollDesc`, `sysmontick` |
//! | `engine` | `schedule`, `pick`, `take_global`, `steal` | the loop of g0, the pick of the next G, taking from the global queue, stealing | `schedule`, `findRunnable`, `globrunqgetbatch`, `stealWork` |
//! | | `enqueue`, [`mod@yield_now`] | enqueueing runnable Gs, yielding | `runqput`, `injectglist`, `Gosched` |
//! | | `switch`, `park`, `ready` | switching from a G, the commit on the far side, parking and readying | `execute`, `mcall`, `gopark`, `goready` |
//! | | `wake`, [`idle`], `timekeeper` | wakeups; idle Ps and Ms, and why no wakeup is lost; the M that wakes for the timers of idle Ps | `wakep`, `startm`, `stopm`, `wakeNetPoller` |
//! | | `slice`, [`preempt`], [`sysmon`] | time slices and preemption; the monitor of slices and system calls | `retake`, `gopreempt_m`, `sysmon` |
//! | | [`syscall`], `syscall_return`, `handoff` | system calls, the return from them, and handoff | `entersyscall`, `exitsyscall`, `handoffp` |
//! | | `poll` | which M takes the signals that devices have raised | `netpoll` |
//! | | `urgent`, `timers` | when the Gs of events run before others; arming and firing timers | `timers` |
//! | | `deadlock` | deadlock detection | `checkdead` |
//! | | `machines` | making Ms | `newm` |
//! | | `hooks` | where the refinements are attached | |
//! | `refinements` | [`stop_the_world`], [`procs`] | stopping the world, changing the number of Ps | `stopTheWorld`, `procresize` |
//! | | [`lock_os_thread`] | Gs locked to their Ms | `LockOSThread`, `startlockedm`, `stoplockedm` |
//! | | `background` | the G that frees the memory of caches | `bgscavenge` |
//! | | `sampling`, `tracing`, `spans` | recording a sample of Gs; taking a trace; spans and marks of programs | `runtime/trace` |
//! | | `exchange_stacks`, `poison`, `windows` | reuse of stacks; for tests, a pattern on dead stacks; a panic where it would break an invariant ends the program | |
//! | | [`by_policy`], `slices_on_threads`, `lone_yields`, `retire` | a program's own policy decides; slices without interrupts; a G that yields alone steals; idle Ms end | |
//! | [`interrupt_return`] | | asynchronous preemption on the return from an interrupt, for kernels | `asyncPreempt`, `doSigPreempt` |
//! | `lifecycle` | [`mod@spawn`], `new_goroutine`, `start_scheduler`, [`join`], `closure`, `finish`, [`mod@exit`], `children`, `free_slots` | beginning and end of a G; reuse of dead Gs | `newproc`, `goexit`, `gfget`, `gfput`, `malg` |
//! | `library` | [`chan`], [`mod@select`] | channels; waiting for one of several channels | `hchan`, `chansend`, `chanrecv`, `selectgo` |
//! | | [`sync`] | locks, semaphores, groups | package `sync`, `sema.go` |
//! | | [`mod@time`], [`cancel`] | timers of programs, tickers, delayed functions; contexts and limits of waits | `time`, `context` |
//! | | [`mod@scope`], [`coroutine`], [`future`] | children that borrow from their parent; generators by direct switch; `core::future` in a G | `coro`, `iter.Pull` |
//! | | [`device_signals`], [`mod@sleep`], [`mod@park`] | waiting for a device, for a point in time, and for anything | `pollDesc`, `timeSleep` |
//! | | `waiter` | wait queues | `sudog`, `waitq` |
//! | `report` | [`schedtrace`], [`snapshot`], `goroutine_list`, `timeline`, [`debugger`], [`stack_overflow`] | the state of a scheduler as text in Go's format, as numbers in memory that another program reads, and as a list of Gs; a drawing of what ran on each P; offsets for debuggers; which G has overflowed its stack | `schedtrace` |
//! | [`synctest`] | | bubbles with a clock of their own, for tests | `testing/synctest` |
//! | `native`, `sim` | | the platform of operating-system threads; a deterministic simulation of both levels, and an exploration of all runs of small programs (feature `std`) | |
//!
//! `unsafe` is allowed only where a lint exception states the reason: the context switch and the contents of stacks
//! (`context`, `entities::free_stacks`, `engine::switch`, `interrupt_return`, `refinements::{exchange_stacks, poison}`,
//! `lifecycle`, `kthread`), storage for closures and results (`entities::inline_body`), stored references
//! (`base::reference`), children that borrow from their parent (`scope`), values that are passed (`chan`, `select`),
//! values under locks (`sync::{mutex, rwlock::raw, condvar, limited, once_cell}`), the platforms (`native`, `sim`), and
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
