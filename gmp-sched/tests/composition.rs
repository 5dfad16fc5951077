//! The protocols of the scheduler in combination. Each test explores all runs, within bounds, of a small program with
//! at most 3 Gs, on 2 CPUs and at first with 3 Ps and 3 Ms. `sim::exhaustive` describes what such an exploration covers
//! and what it does not.
//!
//! Most explorations are bounded, so they do not prove the absence of errors beyond the bounds. There are two bounds:
//! how many times a run may switch away from a CPU that could continue, and how many times the clock may advance while
//! a CPU is busy (a tick). A switch away from a CPU whose G is in `sim::work` is not counted. Without ticks, sysmon
//! runs only while all CPUs halt. `GMP_SWITCHES=3` and `GMP_TICKS=2` set other bounds for all programs, and
//! `GMP_SWITCHES=all` removes the bound on switches. For example:
//!
//! ```sh
//! GMP_SWITCHES=all cargo test --release -p gmp-sched --test composition -- --nocapture submitting
//! ```
//!
//! The explorations of the programs in this table are complete for the given number of ticks. The command above
//! measured them in the release profile; the longest took 25 s of processor time:
//!
//! | program | ticks | states |
//! |---|---|---|
//! | `submitting_and_going_idle` | 0 | 212,950 |
//! | `spinning_m_that_goes_idle_finds_the_work_that_relied_on_it` | 0 | 225,212 |
//! | `idling_m_that_is_assigned_a_p_wakes_another_for_the_other_work` | 0 | 533,034 |
//! | `hand_off_stops_the_processor_with_the_world` | 0 | 38,430 |
//! | `gs_spawned_while_the_world_is_stopped_run_when_it_starts` | 0 | 262,981 |
//! | `timer_of_a_handed_off_p_fires_in_time` | 0 | 1,979,378 |
//! | `g_that_yields_wakes_an_m_that_has_gone_idle` | 0 | 619,849 |
//! | `retake_that_comes_too_late_counts_no_m_as_blocked` | 2 | 88,115 |
//!
//! The other programs have not been explored completely. In particular, `stopping_and_starting_the_world` did not end
//! within 26 minutes. In the release profile, it has 1,500 states with no switch, 40,000 with one and 358,000 with two.
//!
//! Each test prints the number of states, and fails if there are far fewer than when it was written: the call of
//! `explore` has half of that number, as measured by `cargo test -p gmp-sched --test composition -- --nocapture`. The
//! number depends on the code that the compiler generates; see `sim::exhaustive`.
#![cfg(not(gmp_loom))]

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gmp_sched::select;
use gmp_sched::sim::exhaustive::{self, Census, Failure, Setting};
use gmp_sched::sim::{self, Sim};
use gmp_sched::syscall::{blocking, syscall};

#[global_allocator]
static MEMORY: exhaustive::Memory = exhaustive::Memory;

/// A short time. Its length does not matter, because the clock of an explored machine jumps from one deadline to the
/// next.
const A_WHILE: Duration = Duration::from_micros(1);

/// The value of the bound on switches that means that there is no bound.
const ALL: u32 = u32::MAX;

/// Reads a bound from the environment variable `name`, or returns `default` if the variable is not set. Returns `None`
/// if there is no bound.
fn bound(name: &str, default: u32) -> Option<u32> {
    match env::var(name).as_deref() {
        Err(_) => (default != ALL).then_some(default),
        Ok("all") => None,
        Ok(number) => Some(number.parse().expect("a number, or all")),
    }
}

fn try_explore(setting: Setting, program: fn()) -> Result<Census, Failure> {
    // SAFETY: the programs in this file only call the scheduler, allocate memory that they keep to themselves, and
    // write no static or thread-local variable. One of them sets an atomic flag, on which no program depends. They do
    // not print, unless they panic, and they catch no panic.
    unsafe { exhaustive::explore(setting, program) }
}

/// Explores `program` and prints the number of states. The exploration switches at most `switches` times away from a
/// CPU that could continue, and while a CPU is busy, the clock advances at most `ticks` times. With these bounds, there
/// are at least `states` states.
fn explore(name: &str, [switches, ticks]: [u32; 2], states: usize, program: fn()) {
    // The runs of the mutants set `GMP_SIM_SEEDS`. A mutant must break an invariant, not only lead to fewer states.
    let variables = ["GMP_SWITCHES", "GMP_TICKS", "GMP_SIM_SEEDS"];
    let is_usual = variables.iter().all(|name| env::var_os(name).is_none());
    let switches = bound("GMP_SWITCHES", switches);
    let ticks = bound("GMP_TICKS", ticks).expect("the number of ticks is bounded");
    let start = Instant::now();
    let states_at_most = if switches.is_none() { usize::MAX } else { Setting::default().states_at_most };
    let setting = Setting { ticks, switches, states_at_most, ..Setting::default() };
    let census = try_explore(setting, program).unwrap_or_else(|failure| panic!("{name}: {failure}"));
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
    assert!(!is_usual || census.states >= states, "fewer states than {states}: {census:?}");
}

/// Spawns `children` and begins the exploration of every order of steps. Then calls `meanwhile` and joins the children.
fn with_children<const N: usize>(children: [fn(); N], meanwhile: fn()) {
    let children = children.map(|child| sim::go(child));
    exhaustive::begin();
    meanwhile();
    children.into_iter().for_each(|child| child.join().unwrap());
}

/// Returns a timer that is armed although no G waits for it, as after a wait that is over.
fn armed_timer(after: Duration) -> sim::Timer {
    let timer = sim::Timer::new(after);
    // A select that does not wait arms the timer, too.
    select! { recv(timer) => {}, default => {} }
    timer
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
    explore("submit, idle", [5, 0], 23_000, || with_children([sim::yield_now, || ()], || ()));
}

#[test]
fn handing_off_while_others_submit() {
    explore("submit, idle, hand-off", [2, 1], 39_000, || {
        with_children([|| sim::block(A_WHILE), sim::yield_now], || ());
    });
}

/// The system call is long enough for sysmon to retake the P.
#[test]
fn long_system_calls_are_retaken() {
    explore("submit, idle, system call, sysmon", [1, 2], 78_000, || {
        with_children([|| syscall::<Sim, _>(compute), || ()], || ());
    });
}

/// There is only one P, so no other P is idle, and sysmon retakes the P if the second check finds the same call. In
/// some orders, the call ends when sysmon has counted the M as blocked, but has not yet claimed the P.
#[test]
fn retake_that_comes_too_late_counts_no_m_as_blocked() {
    explore("system call, sysmon", [ALL, 2], 17_000, late_retake);
}

fn late_retake() {
    sim::set_procs(1).unwrap();
    exhaustive::begin();
    syscall::<Sim, _>(compute);
    compute();
}

#[test]
fn stopping_and_starting_the_world() {
    explore("idle, hand-off, system call, stop and start", [2, 0], 223_000, || {
        with_children([|| sim::syscall(A_WHILE), || sim::block(A_WHILE)], || drop(sim::stop_the_world()));
    });
}

#[test]
fn changing_the_number_of_processors() {
    explore("submit, idle, system call, set_procs", [2, 0], 168_000, || {
        with_children([|| sim::syscall(A_WHILE), sim::yield_now], || {
            sim::set_procs(1).unwrap();
            sim::set_procs(3).unwrap();
        });
    });
}

#[test]
fn timekeeping() {
    explore("idle, hand-off, timekeeper", [1, 1], 37_000, || {
        with_children([|| sim::sleep(A_WHILE), || sim::block(2 * A_WHILE)], || ());
    });
}

#[test]
fn everything_together() {
    fn program() {
        let sleep_and_call = || {
            sim::sleep(A_WHILE);
            sim::syscall(A_WHILE);
        };
        with_children([sleep_and_call, || sim::block(A_WHILE)], || {
            drop(sim::stop_the_world());
            sim::set_procs(2).unwrap();
        });
    }
    let name = "idle, hand-off, system call, stop and start, set_procs, timekeeper";
    explore(name, [1, 0], 115_000, program);
    // Without ticks, sysmon runs only while all CPUs halt.
    explore(&format!("{name}, sysmon"), [0, 1], 152_000, program);
}

/// In some orders, the main G spawns `child` while another M is spinning, so this spawn wakes no M. The spinning M has
/// to find `child`, although it may already have searched the P of the main G.
#[test]
fn spinning_m_that_goes_idle_finds_the_work_that_relied_on_it() {
    explore("submit, idle", [3, 0], 19_000, || {
        sim::set_procs(2).unwrap();
        exhaustive::begin();
        let_another_machine_search();
        sim::work(A_WHILE);
        let child = sim::go(|| ());
        compute();
        child.join().unwrap();
    });
}

/// In some orders, the other M goes idle when the main G has taken `child` from the queue, but is not yet in the queue
/// itself. So the yield of the main G has to wake that M again. `child` computes meanwhile.
#[test]
fn g_that_yields_wakes_an_m_that_has_gone_idle() {
    explore("submit, idle, yield", [3, 0], 31_000, || {
        sim::set_procs(2).unwrap();
        exhaustive::begin();
        let_another_machine_search();
        sim::work(A_WHILE);
        let child = sim::go(compute);
        sim::yield_now();
        child.join().unwrap();
    });
}

/// An M that has put its P on the idle list checks all queues a second time. Before this check, the M may be assigned a
/// P whose Gs it is to run. So if the check finds other work, the M must wake another M for that work.
#[test]
fn idling_m_that_is_assigned_a_p_wakes_another_for_the_other_work() {
    explore("submit, idle, hand-off", [3, 0], 43_000, || {
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
    explore("hand-off, stop and start", [ALL, 0], 15_000, stop_during_a_hand_off);
}

fn stop_during_a_hand_off() {
    let child = || {
        sim::work(A_WHILE);
        sim::block(A_WHILE);
    };
    sim::set_procs(2).unwrap();
    with_children([child], || {
        sim::work(A_WHILE);
        drop(sim::stop_the_world());
    });
}

/// The request to stop the world may come after the system call of the child has begun. The child cannot stop during
/// the call, so it must stop when the call ends.
#[test]
fn stop_request_during_a_system_call_takes_effect_at_its_end() {
    explore("system call, stop and start", [1, 0], 39_000, || {
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
    explore("system call, stop and start", [1, 0], 14_000, || {
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
    explore("submit, stop and start", [4, 0], 34_000, || {
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
    explore("idle, hand-off, timekeeper", [3, 0], 24_000, || {
        let_another_machine_search();
        exhaustive::begin();
        sim::work(A_WHILE);
        let _timer = armed_timer(A_WHILE);
        sim::block(2 * A_WHILE);
    });
}

#[test]
fn timer_of_a_retired_p_fires_in_time() {
    explore("idle, set_procs, timekeeper", [1, 0], 21_000, || {
        // In some orders, another P steals the first child, because the second child is in `runnext` and thieves take
        // from the ring first. Then the first child sets its timer on a P that `set_procs` retires.
        with_children([|| sim::sleep(A_WHILE), || ()], || {
            sim::work(A_WHILE);
            sim::set_procs(1).unwrap();
        });
    });
}

/// The timekeeper may wake for `first` while the main G runs on the only P. No P is idle then, so there is no timer for
/// which the timekeeper must wake again. In some orders, the P becomes idle before the timekeeper has stored that it
/// has no deadline. Then the timekeeper is not woken for `second`, because `second` is due later than the old deadline.
/// So the timekeeper must check the timers again after it has stored its deadline.
#[test]
fn timekeeper_that_woke_in_vain_wakes_for_the_next_timer() {
    explore("idle, hand-off, timekeeper", [1, 1], 19_000, || {
        sim::set_procs(1).unwrap();
        exhaustive::begin();
        let _first = armed_timer(2 * A_WHILE);
        sim::block(A_WHILE);
        compute();
        let second = armed_timer(4 * A_WHILE);
        sim::block(8 * A_WHILE);
        second.wait();
    });
}

/// A small program that can run in many different orders.
fn two_children() {
    with_children([|| sim::syscall(A_WHILE), || sim::block(A_WHILE)], || drop(sim::stop_the_world()));
}

/// Pruning skips what follows a state that was visited before. The exploration must reach the same number of states
/// with and without pruning. The number of steps is bounded, because without pruning the exploration would take too
/// long.
#[test]
fn pruning_misses_no_state() {
    let setting = Setting { steps: Some(10), ticks: 1, ..Setting::default() };
    let pruned = try_explore(setting, two_children).unwrap();
    let all = try_explore(Setting { prunes: false, ..setting }, two_children).unwrap();
    println!("{} states by {} transitions, and by {} without pruning", all.states, pruned.transitions, all.transitions);
    assert_eq!((pruned.states, pruned.stable), (all.states, all.stable));
    assert!(all.transitions > 2 * pruned.transitions, "{all:?}, {pruned:?}");
}

/// The reduction leaves out states, but no stable situation. These explorations are complete.
#[test]
fn reduction_misses_no_situation() {
    let programs: [fn(); 2] = [stop_during_a_hand_off, late_retake];
    for (program, ticks) in programs.into_iter().zip([0, 2]) {
        let reduced = try_explore(Setting { ticks, ..Setting::default() }, program).unwrap();
        let setting = Setting { ticks, reduces: false, ..Setting::default() };
        let all = try_explore(setting, program).unwrap();
        println!("{reduced:?}, and without reduction {all:?}");
        assert_eq!((reduced.situations, reduced.sum_of_situations), (all.situations, all.sum_of_situations));
        assert!(reduced.states < all.states);
    }
}

/// The exploration finds the deadlock of a program that deadlocks only if the other G runs before the main G's check.
#[test]
fn deadlock_in_one_order_is_found() {
    let failure = try_explore(Setting { switches: Some(1), ..Setting::default() }, || {
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
