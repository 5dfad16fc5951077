//! The scheduler on operating-system threads, from outside the crate: the public interface, and misuses of it by safe code.
#![cfg(not(gmp_loom))]

mod device_signals;
mod entered;
mod misuse;
mod plain_threads;
mod process_end;
mod schedtrace;
mod schedulers;
mod scheduling;
mod stacks;
mod stop_the_world;
mod stopped;
mod sync;
mod synctest;
mod synctest_own;
mod synctest_waits;
mod trace;
mod unwinding;
mod wakes;
