//! Mutants that change a decision of the policy. The simulator's specification (`sim/policy/sentences.rs`) detects them.

use super::Catcher::Simulation;
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "engine/pick.rs",
        "a P takes Gs of the global queue before its own",
        ".or_else(|| processor.pop_local()) .or_else(|| take_global_batch(scheduler, processor))",
        ".or_else(|| take_global_batch(scheduler, processor)) .or_else(|| processor.pop_local())",
        Simulation("simulation/scheduling", "trees_of_gs_with_all_operations", 20),
    ),
    mutant(
        "engine/take_global.rs",
        "a P takes more than its share of the global queue",
        "(rest + 1) / scheduler.procs()",
        "(rest + 1)",
        Simulation("simulation/preemption", "main_returns_in_time_from_blocking_calls", 20),
    ),
    mutant(
        "engine/enqueue.rs",
        "a G whose slice is over goes to runnext",
        "scheduler.put_global_one(&mut scheduler.shared.lock(), Some(processor), goroutine); scheduler.submitted();",
        "put_next(machine, processor, goroutine);",
        Simulation("simulation/preemption", "ring_runs_beside_hogs_that_spawn_hogs", 20),
    ),
    mutant(
        "engine/steal.rs",
        "a thief takes all Gs of a ring",
        "length - length / 2",
        "length",
        Simulation("simulation/cancel", "context_function_runs_once", 20),
    ),
    mutant(
        "engine/yield_now.rs",
        "a G yields to the ring although Gs wait in the global queue",
        "if scheduler.global_length.load(Ordering::Relaxed) == 0 && let Some(next) = pick_next(&pinned, processor)",
        "if let Some(next) = pick_next(&pinned, processor)",
        Simulation("simulation/scheduling", "trees_of_gs_with_all_operations", 20),
    ),
    mutant(
        "engine/preempt.rs",
        "a P may be displaced at any time",
        "if processor.undisturbed_until() > now {",
        "if false {",
        Simulation("simulation/preemption", "ring_runs_beside_sleepers_that_ready_others", 100),
    ),
    mutant(
        "engine/slice.rs",
        "a slice lasts for a quarter of its length",
        "now - Instant::from_nanos(slice.since.load(Ordering::Relaxed)) >= Plat::slice()",
        "now - Instant::from_nanos(slice.since.load(Ordering::Relaxed)) >= Plat::slice() / 4",
        Simulation("simulation/preemption", "hogs_that_sleep_leave_slices_to_others", 60),
    ),
    mutant(
        "engine/preempt.rs",
        "an urgent G waits in the global queue when the slice of others is over",
        "if is_urgent { requeue_urgent } else { requeue_global }",
        "requeue_global",
        Simulation("simulation/preemption", "hogs_that_sleep_leave_slices_to_others", 100),
    ),
    mutant(
        "entities/goroutine/wait.rs",
        "a G stays urgent for two slices",
        "(now + Plat::slice()).as_nanos()",
        "(now + 2 * Plat::slice()).as_nanos()",
        Simulation("simulation/preemption", "hogs_that_sleep_leave_slices_to_others", 60),
    ),
    mutant(
        "engine/pick.rs",
        "a P runs other Gs before urgent ones",
        "let urgent = next_urgent(pinned, machine, processor);",
        "let urgent = processor.queue.is_empty().then(|| next_urgent(pinned, machine, processor)).flatten();",
        Simulation("simulation/scheduling", "trees_of_gs_with_all_operations", 60),
    ),
];
