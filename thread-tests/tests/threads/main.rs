//! Tests of the scheduler on operating-system threads from outside the crate: the public interface, and its misuse by
//! safe code.

extern crate alloc;

/// What the module `several` needs.
use gmp_sched::native as platform;

mod device_signals;
mod due_timers;
mod fatal;
mod misuse;
mod overflows;
mod panics;
#[cfg(feature = "extras")]
mod plain_threads;
mod policies;
mod process_end;
#[cfg(feature = "extras")]
mod ready_waits;
mod schedtrace;
#[path = "../schedtrace_lines/mod.rs"]
mod schedtrace_lines;
#[cfg(feature = "extras")]
mod schedulers;
mod scheduling;
#[path = "../../../gmp-sched/tests/shared/several.rs"]
mod several;
mod stacks;
#[cfg(feature = "extras")]
mod stop_the_world;
mod stopped;
#[cfg(feature = "extras")]
mod sync;
#[cfg(all(feature = "extras", feature = "synctest"))]
mod synctest;
#[cfg(all(feature = "extras", feature = "synctest"))]
mod synctest_own;
#[cfg(all(feature = "extras", feature = "synctest"))]
mod synctest_timers;
#[cfg(all(feature = "extras", feature = "synctest"))]
mod synctest_waits;
mod trace;
#[cfg(feature = "extras")]
mod unwinding;
mod waits;
#[cfg(feature = "extras")]
mod wakes;
