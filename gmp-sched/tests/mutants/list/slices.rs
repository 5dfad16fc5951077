//! Mutants of slices, and of the bounds on how long a runnable G waits.

use super::Catcher::{Simulation, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "engine/slice.rs",
        "slices never end",
        "        self.slice.ends.store(tick, Ordering::Relaxed);",
        "        let _ = tick;",
        Simulation("simulation/preemption", "two_gs_that_ready_each_other_share_a_slice", 60),
    ),
    mutant(
        "library/coroutine/switch.rs",
        "on platforms without timer interrupts, the two Gs of a coroutine do not stop with the world",
        "&& (!processor.needs_slow_pick() || !must_pick(machine, processor))",
        "",
        Test("threads/stop_the_world", "coroutine_stops_with_the_world"),
    ),
    mutant(
        "engine/preempt.rs",
        "the timer of a CPU fires only every other slice",
        "    let next_slice = now + Plat::slice();",
        "    let next_slice = now + 2 * Plat::slice();",
        Simulation("simulation/preemption", "two_gs_that_ready_each_other_share_a_slice", 60),
    ),
    mutant(
        "engine/slice.rs",
        "the G of `runnext` runs on after the end of a slice",
        "        put_next_last(scheduler, self);
        // The pick",
        "        let _ = scheduler;
        // The pick",
        Simulation("simulation/preemption", "ring_runs_beside_hogs_that_spawn_hogs", 60),
    ),
    mutant(
        "engine/slice.rs",
        "urgent Gs run on after the end of a slice",
        "        if is_urgent {
            self.use_up_urgent_time();",
        "        if is_urgent {
            self.renew_urgent_time();",
        Simulation("simulation/preemption", "urgent_g_gives_way_at_the_end_of_a_slice", 60),
    ),
    mutant(
        "engine/urgent.rs",
        "Gs that are readied by urgent Gs run before those in the ring",
        "    put_next_last(scheduler, processor);
    processor.slice",
        "    processor.slice",
        Simulation("simulation/preemption", "ring_runs_beside_sleepers_that_ready_others", 100),
    ),
    mutant(
        "engine/urgent.rs",
        "the G that runs after urgent Gs may be displaced at once",
        "    processor.slice.undisturbed_since.store(now.as_nanos(), Ordering::Relaxed);",
        "    let _ = now;",
        Simulation("simulation/preemption", "ring_runs_beside_sleepers_that_ready_others", 100),
    ),
];
