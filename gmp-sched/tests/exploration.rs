//! The exploration of small programs itself.
//! `composition` explores the protocols of the scheduler. It also checks that an exploration leaves out no state that
//! matters.
#![cfg(not(gmp_loom))]

use std::time::Duration;

use gmp_sched::sim;
use gmp_sched::sim::exhaustive::{self, Census, Failure, Setting};

#[global_allocator]
static MEMORY: exhaustive::Memory = exhaustive::Memory;

/// A short time. Its length does not matter, because the clock of an explored machine jumps from one deadline to the
/// next.
const A_WHILE: Duration = Duration::from_micros(1);

/// Explores `program`.
fn explore(setting: Setting, program: fn()) -> Result<Census, Failure> {
    // SAFETY: the programs in this file only call the scheduler and allocate memory that they keep to themselves. They
    // do not print, unless they panic, and they catch no panic.
    unsafe { exhaustive::explore(setting, program) }
}

#[test]
fn largest_machine_has_memory_enough() {
    let setting = Setting { cpus: 4, processors: 32, switches: Some(0), ..Setting::default() };
    explore(setting, exhaustive::begin).unwrap();
}

#[test]
#[should_panic(expected = "0 CPUs")]
fn setting_without_a_cpu_panics() {
    let _ = explore(Setting { cpus: 0, ..Setting::default() }, exhaustive::begin);
}

#[test]
#[should_panic(expected = "5 CPUs")]
fn setting_with_too_many_cpus_panics() {
    let _ = explore(Setting { cpus: 5, ..Setting::default() }, exhaustive::begin);
}

#[test]
#[should_panic(expected = "0 Ps")]
fn setting_without_a_p_panics() {
    let _ = explore(Setting { processors: 0, ..Setting::default() }, exhaustive::begin);
}

#[test]
#[should_panic(expected = "33 Ps")]
fn setting_with_too_many_ps_panics() {
    let _ = explore(Setting { procs_limit: 33, ..Setting::default() }, exhaustive::begin);
}

#[test]
#[should_panic(expected = "a simulation inside a simulation")]
fn exploration_inside_a_simulation_panics() {
    sim::run(sim::Config::default(), || drop(explore(Setting::default(), exhaustive::begin))).unwrap();
}

#[test]
#[should_panic(expected = "the program ends before it calls `begin`")]
fn program_that_ends_before_begin_panics() {
    let _ = explore(Setting::default(), || ());
}

/// Before the program calls `begin`, the clock does not advance.
#[test]
#[should_panic(expected = "the program never calls `begin`")]
fn program_that_sleeps_before_begin_panics() {
    let _ = explore(Setting::default(), || sim::sleep(A_WHILE));
}
