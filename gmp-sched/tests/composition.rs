//! The protocols of the scheduler in combination. Each test explores all runs of a small program on 2 CPUs with 3 Ps, 3
//! Gs and at first 3 Ms, within bounds. `sim::exhaustive` describes what such an exploration covers and what it does
//! not.
//!
//! Each test prints the number of states. The exploration bounds how many times a run may switch away from a CPU that
//! could continue. In a debug build the bound is 0 for large programs, 1 for small ones and 2 for the smallest (see
//! `Size`). In an optimised build the bound is one higher. A switch away from a CPU whose G is in `sim::work` is not
//! counted. `GMP_SWITCHES=3` sets another bound, and `GMP_SWITCHES=all` removes the bound. Without a bound, the program
//! of the first test has a million states. The programs of the other tests have not yet been explored completely
//! without a bound. This command explores the program of the first test without a bound:
//!
//! ```sh
//! GMP_SWITCHES=all cargo test --release -p gmp-sched --test composition -- --nocapture submitting
//! ```
#![cfg(not(gmp_loom))]

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gmp_sched::sim::exhaustive::{self, Census, Setting};
use gmp_sched::sim::{self, Sim};
use gmp_sched::syscall::{blocking, syscall};

#[global_allocator]
static MEMORY: exhaustive::Memory = exhaustive::Memory;

/// A short time. Its length does not matter, because the clock of an explored machine jumps from one deadline to the
/// next.
const A_WHILE: Duration = Duration::from_micros(1);

/// The size of a program. The larger a program is, the less often an exploration may switch away from a CPU that could
/// continue.
#[derive(Clone, Copy)]
enum Size {
    Large = 0,
    Small = 1,
    Tiny = 2,
}

/// Explores `program` and prints the number of states. While a CPU is busy, the clock advances at most `ticks` times.
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

/// Spawns `children` and begins the exploration of every order of steps. Then calls `meanwhile` and joins the children.
fn with_children<const N: usize>(children: [fn(); N], meanwhile: fn()) {
    let children = children.map(|child| sim::go(child));
    exhaustive::begin();
    meanwhile();
    children.into_iter().for_each(|child| child.join().unwrap());
}

/// Computes for a few steps, in which pending interrupts are handled and requested preemptions take effect.
fn compute() {
    (0..3).for_each(|_| sim::work(A_WHILE));
}

/// Makes another M search for work, by spawning a G. Before the spawn, the caller computes for a step, so that the
/// other CPU may run first. The switch to the other CPU is then not counted by the bound on switches.
fn let_another_machine_search() {
    sim::work(A_WHILE);
    sim::go(|| ()).join().unwrap();
}

#[test]
fn submitting_and_going_idle() {
    explore("submit, idle", Size::Small, 0, || with_children([sim::yield_now, || ()], || ()));
}

#[test]
fn handing_off_while_others_submit() {
    explore("submit, idle, hand-off", Size::Small, 1, || {
        with_children([|| sim::block(A_WHILE), sim::yield_now], || ());
    });
}

/// The system call is long enough for sysmon to retake the P.
#[test]
fn long_system_calls_are_retaken() {
    explore("submit, idle, system call, sysmon", Size::Large, 2, || {
        with_children([|| syscall::<Sim, _>(compute), || ()], || ());
    });
}

#[test]
fn stopping_and_starting_the_world() {
    explore("idle, hand-off, system call, stop and start", Size::Small, 0, || {
        with_children([|| sim::syscall(A_WHILE), || sim::block(A_WHILE)], || drop(sim::stop_the_world()));
    });
}

#[test]
fn changing_the_number_of_processors() {
    explore("submit, idle, system call, set_procs", Size::Small, 0, || {
        with_children([|| sim::syscall(A_WHILE), sim::yield_now], || {
            sim::set_procs(1).unwrap();
            sim::set_procs(3).unwrap();
        });
    });
}

#[test]
fn timekeeping() {
    explore("idle, hand-off, timekeeper", Size::Large, 1, || {
        with_children([|| sim::sleep(A_WHILE), || sim::block(2 * A_WHILE)], || ());
    });
}

#[test]
fn everything_together() {
    explore("idle, hand-off, system call, stop and start, set_procs, timekeeper", Size::Large, 0, || {
        let sleep_and_call = || {
            sim::sleep(A_WHILE);
            sim::syscall(A_WHILE);
        };
        with_children([sleep_and_call, || sim::block(A_WHILE)], || {
            drop(sim::stop_the_world());
            sim::set_procs(2).unwrap();
        });
    });
}

/// In some orders, the main G spawns `child` while another M is spinning, so this spawn wakes no M. The spinning M has
/// to find `child`, although it may already have searched the P of the main G.
#[test]
fn spinning_m_that_goes_idle_finds_the_work_that_relied_on_it() {
    explore("submit, idle", Size::Small, 0, || {
        sim::set_procs(2).unwrap();
        exhaustive::begin();
        let_another_machine_search();
        sim::work(A_WHILE);
        let child = sim::go(|| ());
        compute();
        child.join().unwrap();
    });
}

/// An M that has put its P on the idle list checks all queues a second time. Before this check, the M may be assigned a
/// P whose Gs it is to run. So if the check finds other work, the M must wake another M for that work.
#[test]
fn idling_m_that_is_assigned_a_p_wakes_another_for_the_other_work() {
    explore("submit, idle, hand-off", Size::Tiny, 0, || {
        sim::set_procs(2).unwrap();
        blocking::<Sim, _>(|| ());
        let_another_machine_search();
        exhaustive::begin();
        sim::work(A_WHILE);
        let children: [_; 2] = [|| (), compute].map(|child: fn()| sim::go(child));
        sim::work(A_WHILE);
        sim::block(A_WHILE);
        children.into_iter().for_each(|child| child.join().unwrap());
    });
}

#[test]
fn hand_off_stops_the_processor_with_the_world() {
    explore("hand-off, stop and start", Size::Small, 0, || {
        let child = || {
            sim::work(A_WHILE);
            sim::block(A_WHILE);
        };
        sim::set_procs(2).unwrap();
        with_children([child], || {
            sim::work(A_WHILE);
            drop(sim::stop_the_world());
        });
    });
}

/// The request to stop the world may come after the system call of the child has begun. The child cannot stop during
/// the call, so it must stop when the call ends.
#[test]
fn stop_request_during_a_system_call_takes_effect_at_its_end() {
    explore("system call, stop and start", Size::Large, 0, || {
        let child = || {
            sim::work(A_WHILE);
            sim::syscall(A_WHILE);
            compute();
        };
        with_children([child], || {
            sim::work(A_WHILE);
            drop(sim::stop_the_world());
        });
    });
}

#[test]
fn world_stops_while_a_system_call_goes_on() {
    /// The explored program only writes this flag, so the flag need not be part of the program's saved state.
    static IS_STOPPED_IN_A_CALL: AtomicBool = AtomicBool::new(false);
    explore("system call, stop and start", Size::Large, 0, || {
        let is_in_call = Arc::new(AtomicBool::new(false));
        let in_call = is_in_call.clone();
        let child = sim::go(move || {
            syscall::<Sim, _>(|| {
                in_call.store(true, Ordering::Relaxed);
                sim::work(A_WHILE);
                in_call.store(false, Ordering::Relaxed);
            });
        });
        exhaustive::begin();
        sim::work(A_WHILE);
        let world = sim::stop_the_world();
        if is_in_call.load(Ordering::Relaxed) {
            IS_STOPPED_IN_A_CALL.store(true, Ordering::Relaxed);
        }
        drop(world);
        child.join().unwrap();
    });
    assert!(IS_STOPPED_IN_A_CALL.load(Ordering::Relaxed), "the stop waits for the end of every call");
}

#[test]
fn gs_spawned_while_the_world_is_stopped_run_when_it_starts() {
    explore("submit, stop and start", Size::Large, 0, || {
        exhaustive::begin();
        let world = sim::stop_the_world();
        let child = sim::go(|| ());
        drop(world);
        compute();
        child.join().unwrap();
    });
}

#[test]
fn timer_of_a_handed_off_p_fires_in_time() {
    explore("idle, hand-off, timekeeper", Size::Large, 0, || {
        let_another_machine_search();
        exhaustive::begin();
        sim::work(A_WHILE);
        let timer = sim::Timer::new(A_WHILE);
        sim::block(2 * A_WHILE);
        timer.wait();
    });
}

#[test]
fn timer_of_a_retired_p_fires_in_time() {
    explore("idle, set_procs, timekeeper", Size::Large, 0, || {
        // The other P steals the first G, because the second is in `runnext` and thieves take from the ring first. So
        // the timer is set on the P that `set_procs` then retires.
        with_children([|| sim::sleep(A_WHILE), || ()], || {
            sim::work(A_WHILE);
            sim::set_procs(1).unwrap();
        });
    });
}

/// A small program that can run in many different orders.
fn two_children() {
    with_children([|| sim::syscall(A_WHILE), || sim::block(A_WHILE)], || drop(sim::stop_the_world()));
}

/// Pruning skips what follows a state that was visited before. The exploration must reach the same states with and
/// without pruning. The number of steps is bounded, because without pruning the exploration would take too long.
#[test]
fn pruning_misses_no_state() {
    let setting = Setting { steps: Some(10), ticks: 1, ..Setting::default() };
    let pruned = exhaustive::explore(setting, two_children).unwrap();
    let all = exhaustive::explore(Setting { prunes: false, ..setting }, two_children).unwrap();
    println!("{} states by {} transitions, and by {} without pruning", all.states, pruned.transitions, all.transitions);
    assert_eq!((pruned.states, pruned.stable), (all.states, all.stable));
    assert!(all.transitions > 2 * pruned.transitions, "{all:?}, {pruned:?}");
}

/// The exploration finds a program that deadlocks in only one order of its steps.
#[test]
fn deadlock_in_one_order_is_found() {
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
