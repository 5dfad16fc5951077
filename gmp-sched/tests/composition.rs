//! The protocols of the scheduler together: small programs on 2 CPUs with 3 Ps, 3 Ms at first and 3 Gs, of which every run
//! is explored, within bounds. See `sim::exhaustive` for what that covers and what it does not.
//!
//! Each test prints the number of states. An ordinary run switches away from a CPU that could continue at most once per run,
//! or never in the largest programs; an optimised build twice, and once. `GMP_SWITCHES=3` chooses another bound, and
//! `GMP_SWITCHES=all` none. Without a bound the first of these programs has a million states; the others have not been run
//! to the end:
//!
//! ```sh
//! GMP_SWITCHES=all cargo test --release -p gmp-sched --test composition -- --nocapture submitting
//! ```
#![cfg(not(gmp_loom))]

use std::env;
use std::time::{Duration, Instant};

use gmp_sched::sim::exhaustive::{self, Census, Setting};
use gmp_sched::sim::{self, Sim};
use gmp_sched::syscall::syscall;

#[global_allocator]
static MEMORY: exhaustive::Memory = exhaustive::Memory;

/// A deadline that passes only if the clock advances while a CPU is busy.
const A_WHILE: Duration = Duration::from_micros(1);

/// How often to switch away from a CPU that could continue, in a build that is not optimised.
#[derive(Clone, Copy)]
enum Size {
    Large = 0,
    Small = 1,
}

/// Explores `program`, in which the clock advances this often while a CPU is busy, and prints the number of states.
fn explore(name: &str, size: Size, ticks: u32, program: fn()) -> Census {
    let switches = match env::var("GMP_SWITCHES").as_deref() {
        Err(_) => Some(size as u32 + u32::from(!cfg!(debug_assertions))),
        Ok("all") => None,
        Ok(number) => Some(number.parse().expect("a number, or all")),
    };
    let start = Instant::now();
    let setting = Setting { ticks, switches, ..Setting::default() };
    let census = exhaustive::explore(setting, program).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    let bound = switches.map_or("any number of".to_string(), |switches| format!("at most {switches}"));
    println!(
        "{name}: {} states, {} of them stable, {} transitions, longest path {}, with {bound} switches and {ticks} ticks, {:?}",
        census.states,
        census.stable,
        census.transitions,
        census.depth,
        start.elapsed()
    );
    assert!(census.ends > 0 && census.stable > 0, "{census:?}");
    census
}

#[test]
fn submitting_and_going_idle() {
    explore("submit, idle", Size::Small, 0, || {
        let first = sim::go(sim::yield_now);
        let second = sim::go(|| ());
        exhaustive::begin();
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn handing_off_while_others_submit() {
    explore("submit, idle, hand-off", Size::Small, 1, || {
        let first = sim::go(|| sim::block(A_WHILE));
        let second = sim::go(sim::yield_now);
        exhaustive::begin();
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// Long enough for sysmon to retake the P.
#[test]
fn long_system_calls_are_retaken() {
    explore("submit, idle, system call, sysmon", Size::Large, 2, || {
        let first = sim::go(|| {
            syscall::<Sim, _>(|| (0..3).for_each(|_| sim::work(A_WHILE)));
        });
        let second = sim::go(|| ());
        exhaustive::begin();
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn stopping_and_starting_the_world() {
    explore("idle, hand-off, system call, stop and start", Size::Small, 0, || {
        let first = sim::go(|| sim::syscall(A_WHILE));
        let second = sim::go(|| sim::block(A_WHILE));
        exhaustive::begin();
        drop(sim::stop_the_world());
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn changing_the_number_of_processors() {
    explore("submit, idle, system call, set_procs", Size::Small, 0, || {
        let first = sim::go(|| sim::syscall(A_WHILE));
        let second = sim::go(sim::yield_now);
        exhaustive::begin();
        sim::set_procs(1).unwrap();
        sim::set_procs(3).unwrap();
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn timekeeping() {
    explore("idle, hand-off, timekeeper", Size::Large, 1, || {
        let first = sim::go(|| sim::sleep(A_WHILE));
        let second = sim::go(|| sim::block(2 * A_WHILE));
        exhaustive::begin();
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn everything_together() {
    explore("idle, hand-off, system call, stop and start, set_procs, timekeeper", Size::Large, 0, || {
        let first = sim::go(|| {
            sim::sleep(A_WHILE);
            sim::syscall(A_WHILE);
        });
        let second = sim::go(|| sim::block(A_WHILE));
        exhaustive::begin();
        drop(sim::stop_the_world());
        sim::set_procs(2).unwrap();
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// A program with many different runs.
fn two_children() {
    let first = sim::go(|| sim::syscall(A_WHILE));
    let second = sim::go(|| sim::block(A_WHILE));
    exhaustive::begin();
    drop(sim::stop_the_world());
    first.join().unwrap();
    second.join().unwrap();
}

/// All runs of a few steps lead to the same states, with and without pruning of what follows a known state.
#[test]
fn pruning_misses_no_state() {
    let setting = Setting { steps: Some(10), ticks: 1, ..Setting::default() };
    let pruned = exhaustive::explore(setting, two_children).unwrap();
    let all = exhaustive::explore(Setting { prunes: false, ..setting }, two_children).unwrap();
    println!("{} states by {} transitions, and by {} without pruning", all.states, pruned.transitions, all.transitions);
    assert_eq!((pruned.states, pruned.stable), (all.states, all.stable));
    assert!(all.transitions > 2 * pruned.transitions, "{all:?}, {pruned:?}");
}

/// The explorer finds a G that only one order of the steps leaves without a wakeup.
#[test]
fn deadlock_in_one_order_is_found() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    let failure = exhaustive::explore(Setting { switches: Some(1), ..Setting::default() }, || {
        let is_set = Arc::new(AtomicBool::new(false));
        let setter = is_set.clone();
        let first = sim::go(move || setter.store(true, Ordering::Relaxed));
        exhaustive::begin();
        sim::work(A_WHILE);
        if is_set.load(Ordering::Relaxed) {
            gmp_sched::park::park::<Sim>(gmp_sched::goroutine::WaitReason::Parked, |_, _| true);
        }
        first.join().unwrap();
    })
    .unwrap_err();
    assert!(failure.message.contains("all goroutines are asleep - deadlock!"), "{failure}");
    assert!(!failure.steps.is_empty());
}
