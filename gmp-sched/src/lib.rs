//! Go's scheduler as a crate: Gs (flows of control with stacks of their own) run on Ms (threads of the platform) that
//! hold a P (a licence to run, with a local run queue). `no_std`, hardware-free, without statics; what it needs of the
//! machine under it is the [`platform::Platform`] trait.
//!
//! The source is a stack of layers, one folder each, from the ground up:
//!
//! | layer | module | concept | Go (runtime, go1.27) |
//! |---|---|---|---|
//! | `base` | [`run_queue`] | local ring and `runnext` | `runqput`, `runqget`, `runqgrab` |
//! | | `timing_wheel`, `list`, `reference`, `spin_lock`, `atomic` | hierarchical timing wheel, intrusive FIFO, atomic references, the only import of atomics | `gQueue` |
//! | [`platform`] | [`context`] | what the scheduler needs of the machine; the context switch; with the feature `control-words` it keeps the floating-point control words | `gogo`, `mcall`, `gosave` |
//! | `record` | [`mod@latency`], [`mod@trace`], `counters`, `observe` | how long Gs wait to run, what happens on each P | `timeToRun`, `runtime/trace` |
//! | `entities` | [`goroutine`], [`machine`], [`processor`], [`scheduler`] | G, M, P and what they share | `g`, `m`, `p`, `schedt` |
//! | | `free_list` | dead Gs, with and without a stack | `gfput`, `gfget`, `malg` |
//! | | `wait_reason` | why Gs wait | `waitReason` |
//! | `engine` | [`schedule`], `find`, `steal` | the g0 loop, yield, the search for work | `schedule`, `findRunnable`, `stealWork` |
//! | | `switch`, [`mod@park`] | leaving a G, the far-side commit, blocking and readying | `execute`, `mcall`, `gopark`, `goready` |
//! | | [`idle`] | idle Ps and Ms, wake-ups, and why none is lost | `wakep`, `startm`, `stopm` |
//! | | [`preempt`], [`sysmon`] | time slices and preemption; the monitor of slices and system calls | `retake`, `gopreempt_m`, `sysmon` |
//! | | [`syscall`] | system calls and handoff | `entersyscall`, `exitsyscall`, `handoffp` |
//! | | [`poller`] | Gs that wait for devices | `netpoll`, `pollDesc` |
//! | | `timers`, `due`, [`mod@sleep`] | the timers of each P, and when their Gs run | `timers`, `timeSleep` |
//! | | [`stop_the_world`], [`procs`] | stopping the world, changing the number of Ps | `stopTheWorld`, `procresize` |
//! | | [`lock_os_thread`] | Gs locked to their Ms | `LockOSThread`, `startlockedm`, `stoplockedm` |
//! | | `deadlock` | deadlock detection | `checkdead` |
//! | `lifecycle` | [`mod@spawn`], [`join`], `body`, [`mod@exit`] | a G's beginning and end | `newproc`, `goexit` |
//! | `library` | [`chan`], [`mod@select`] | channels; waiting for one of several | `hchan`, `chansend`, `chanrecv`, `selectgo` |
//! | | [`sync`] | locks, and waiting for each other | package `sync`, `sema.go` |
//! | | [`mod@time`], [`cancel`] | timers of programs, tickers, functions that run later; contexts and time limits | `time`, `context` |
//! | | [`mod@scope`], [`coroutine`], [`future`] | children that borrow from their parent; values by direct switch; `core::future` in a G | `coro`, `iter.Pull` |
//! | | `waiter` | wait queues | `sudog`, `waitq` |
//! | `report` | `detail`, `picture`, [`debugger`] | a running scheduler in lines; what ran where, drawn; where a debugger finds things | `schedtrace` |
//! | [`synctest`] | | bubbles with a clock of their own, for tests | `testing/synctest` |
//! | [`kthread`] | | kernel threads, the level below Ms | (the operating system) |
//! | `native`, `sim` | | the platform of operating-system threads; a seeded simulation of the whole, both levels, and a search through all states of small programs (feature `std`) | |
//!
//! `unsafe` is allowed only where a lint exception names the reason: the switch and what lies on stacks
//! (`platform::context`, `engine::switch`, `lifecycle::{body, join}`, `entities::free_list`, `kthread::switch`), stored
//! references (`base::reference`), values on their way (`chan`, `select`), values under locks (`sync::{mutex, rwlock::raw,
//! condvar, once_cell}`), the platforms (`native`, `sim`), and what an interface asks of its callers (`platform`,
//! [`park::ready`], [`exit::abandon`], [`machine::NewMachine`]). Policy (search, stealing, idling, queues, timers,
//! preemption, sysmon) has none.
// With loom there are only the models: nobody links the library that the tests of the crate depend on otherwise.
#![cfg(any(test, not(gmp_loom)))]
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod aliases;
mod base;
#[expect(unsafe_code, reason = "switches stacks")]
pub mod context;
mod engine;
mod entities;
pub mod kthread;
mod library;
mod lifecycle;
#[cfg(all(test, gmp_loom))]
mod models;
#[cfg(all(feature = "std", not(gmp_loom)))]
pub mod native;
pub mod platform;
mod record;
mod report;
#[cfg(all(feature = "std", not(gmp_loom)))]
pub mod sim;
pub mod synctest;

pub use base::run_queue;
pub use engine::{
    idle, lock_os_thread, park, poller, preempt, procs, schedule, sleep, stop_the_world, syscall, sysmon,
};
pub use entities::name::{NAME_LIMIT, Name};
pub use entities::{goroutine, machine, processor, scheduler};
pub use library::{cancel, chan, coroutine, future, scope, select, sync, time};
pub use lifecycle::body::BODY_LIMIT;
pub use lifecycle::join::{JoinError, JoinHandle};
pub use lifecycle::{exit, join, spawn};
pub use record::counters::Counts;
pub use record::{latency, trace};
pub use report::debugger;
