//! Go's scheduler as a crate: Gs (flows of control with stacks of their own) run on Ms (threads of the platform) that
//! hold a P (a licence to run, with a local run queue). `no_std`, hardware-free, without statics; what it needs of the
//! machine under it is the [`platform::Platform`] trait.
//!
//! | module | concept | Go (runtime, go1.27) |
//! |---|---|---|
//! | [`goroutine`], [`machine`], [`processor`], [`scheduler`] | G, M, P and what they share | `g`, `m`, `p`, `schedt` |
//! | `wait_reason` | why Gs wait | `waitReason` |
//! | [`run_queue`] | local ring and `runnext` | `runqput`, `runqget`, `runqgrab` |
//! | `find`, `steal` | the search for work | `findRunnable`, `stealWork` |
//! | [`idle`] | idle Ps and Ms, wake-ups, and why none is lost | `wakep`, `startm`, `stopm` |
//! | [`schedule`], `switch` | yield, the g0 loop, the far-side commit | `schedule`, `execute`, `mcall` |
//! | [`preempt`] | slices, giving way | `retake`, `gopreempt_m` |
//! | [`mod@park`] | blocking and readying | `gopark`, `goready` |
//! | [`mod@spawn`], [`join`], `body`, [`mod@exit`] | a G's beginning and end | `newproc`, `goexit` |
//! | `slots` | the slots of dead Gs, with and without a stack | `gfput`, `gfget`, `malg` |
//! | [`syscall`] | system calls and handoff | `entersyscall`, `exitsyscall`, `handoffp` |
//! | [`sysmon`] | the watch | `sysmon`, `retake` |
//! | [`poller`] | waiting for devices | `netpoll`, `pollDesc` |
//! | `timers`, [`mod@sleep`] | timers | `timers`, `timeSleep` |
//! | [`mod@time`] | points in time, timers of programs, tickers, functions that run later | `time` |
//! | [`cancel`] | contexts, how long to wait | `context` |
//! | [`coroutine`] | values by direct switch | `coro`, `iter.Pull` |
//! | [`future`] | `core::future` in a G | |
//! | [`mod@scope`] | children that borrow from their parent | |
//! | [`synctest`] | bubbles with a clock of their own, for tests | `testing/synctest` |
//! | `timers`, `due`, [`mod@sleep`] | timers, and when their Gs run | `timers`, `timeSleep` |
//! | `waiter` | standing in a queue | `sudog`, `waitq` |
//! | [`mod@latency`], [`mod@trace`] | how long Gs wait to run, what happens on each P | `timeToRun`, `runtime/trace` |
//! | [`chan`] | channels | `hchan`, `chansend`, `chanrecv` |
//! | [`mod@select`] | waiting for one of several channels | `selectgo` |
//! | [`sync`] | locks, and waiting for each other | package `sync`, `sema.go` |
//! | [`world`], [`procs`] | stopping the world, changing the number of Ps | `stopTheWorld`, `procresize` |
//! | [`locked`] | Gs locked to their Ms | `LockOSThread`, `startlockedm`, `stoplockedm` |
//! | `deadlock` | deadlock detection | `checkdead` |
//! | [`debugger`] | where a debugger finds things | |
//! | `detail`, `picture` | what goes on, in lines; what ran where, drawn | `schedtrace` |
//! | [`context`] | the context switch; with the feature `control-words` it keeps the floating-point control words | `gogo`, `mcall`, `gosave` |
//! | [`kthread`] | kernel threads, the level below Ms | (the operating system) |
//! | `sim` | a seeded simulation of the whole, both levels, and a search through all states of small programs (feature `std`) | |
//! | `native` | the platform of operating-system threads (feature `std`) | |
//!
//! `unsafe` is allowed only where a lint exception names the reason: the switch and what lies on stacks (`context`,
//! `switch`, `body`, `join`, `slots`, `kthread::switch`), stored references (`reference`), values on their way (`chan`,
//! `select`), values under locks (`sync::{mutex, rwlock::raw, condvar, once_cell}`), the platforms (`native`, `sim`), and
//! what an interface asks of its callers (`platform`, [`park::ready`], [`exit::abandon`], [`machine::NewMachine`]). Policy (search, stealing, idling, queues, timers,
//! preemption, sysmon) has none.
// With loom there are only the models: nobody links the library that the tests of the crate depend on otherwise.
#![cfg(any(test, not(gmp_loom)))]
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[expect(unsafe_code, reason = "switches stacks")]
pub mod context;

mod aliases;
mod body;
mod caller;
pub mod cancel;
pub mod chan;
pub mod coroutine;
mod counters;
mod deadlock;
pub mod debugger;
mod detail;
mod due;
pub mod exit;
mod find;
pub mod future;
pub mod goroutine;
pub mod idle;
pub mod join;
pub mod kthread;
pub mod latency;
mod list;
mod lock;
pub mod locked;
pub mod machine;
#[cfg(all(test, gmp_loom))]
mod models;
mod name;
#[cfg(all(feature = "std", not(gmp_loom)))]
pub mod native;
mod observe;
pub mod park;
mod picture;
pub mod platform;
pub mod poller;
pub mod preempt;
mod primitives;
pub mod processor;
pub mod procs;
mod reference;
pub mod run_queue;
pub mod schedule;
pub mod scheduler;
pub mod scope;
pub mod select;
#[cfg(all(feature = "std", not(gmp_loom)))]
pub mod sim;
pub mod sleep;
mod slots;
pub mod spawn;
#[cfg(all(test, gmp_loom))]
mod stand_in;
mod steal;
mod switch;
pub mod sync;
pub mod synctest;
pub mod syscall;
pub mod sysmon;
pub mod time;
mod timers;
mod timing_wheel;
pub mod trace;
mod wait_reason;
mod waiter;
pub mod world;

pub use body::BODY_LIMIT;
pub use counters::Counts;
pub use join::{JoinError, JoinHandle};
pub use name::{NAME_LIMIT, Name};
