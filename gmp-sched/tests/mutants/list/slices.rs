//! Mutants of slices, and of the bounds on how long a runnable G waits.

use super::Catcher::{Properties, Simulation, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "engine/slice.rs",
        "slices never end",
        "        self.slice.ends.store(self.tick(), Ordering::Relaxed);
        if !Plat::TIMER_INTERRUPTS {",
        "        if !Plat::TIMER_INTERRUPTS {",
        Simulation("simulation/preemption", "two_gs_that_ready_each_other_share_a_slice", 60),
    ),
    mutant(
        "engine/pick.rs",
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
        "entities/current_slice.rs",
        "Gs whose timers are due prolong a slice again and again",
        "self.seen.load(Ordering::Relaxed) == tick && self.is_prolonged.load(Ordering::Relaxed)",
        "self.owner.load(Ordering::Relaxed).is_none() && self.is_prolonged.load(Ordering::Relaxed)",
        Simulation("simulation/preemption", "timers_displace_hogs", 200),
    ),
    mutant(
        "engine/slice.rs",
        "Gs that are spawned at the end of a slice prolong it again and again",
        "if self.queue.next().is_some() && self.slice.prolong(tick, now) {",
        "if self.queue.next().is_some() && (self.slice.prolong(tick, now) || true) {",
        Simulation("simulation/preemption", "ring_runs_beside_hogs_that_spawn_hogs", 60),
    ),
    mutant(
        "engine/due_timers.rs",
        "Gs that are readied by Gs of due timers run before those in the ring",
        "processor.queue.next().is_some_and(|next| !processor.is_displaced(next))",
        "processor.queue.next().is_some_and(|next| !processor.is_displaced(next) && false)",
        Simulation("simulation/preemption", "ring_runs_beside_sleepers_that_ready_others", 100),
    ),
    mutant(
        "engine/due_timers.rs",
        "the G that runs after a batch of due timers may be displaced at once",
        "    processor.slice.undisturbed_since.store(now.as_nanos(), Ordering::Relaxed);",
        "    let _ = now;",
        Simulation("simulation/preemption", "ring_runs_beside_sleepers_that_ready_others", 100),
    ),
    mutant(
        "entities/current_slice.rs",
        "each displacement after the end of a slice lets the slice go on",
        "        if self.ends.load(Ordering::Relaxed) == tick && self.prolong(tick, now) {",
        "        if self.ends.load(Ordering::Relaxed) == tick {",
        Properties("displacement_prolongs_a_slice_that_is_over_once"),
    ),
];
