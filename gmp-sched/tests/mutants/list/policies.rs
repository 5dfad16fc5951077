//! Mutants of the policies of programs, and of the part of the engine that asks them.

use super::Catcher::{Properties, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "base/ranked_queue.rs",
        "the root of a queue is the element with the highest rank",
        "key(one) <= key(other)",
        "key(one) > key(other)",
        Properties("random_pushes_and_pops_agree_with_an_ordered_map"),
    ),
    mutant(
        "base/ranked_queue.rs",
        "a pop loses the last child if their number is odd",
        "let pair = meld(Some(one), other);",
        "let pair = if other.is_none() && pairs.is_some() { None } else { meld(Some(one), other) };",
        Properties("random_pushes_and_pops_agree_with_an_ordered_map"),
    ),
    mutant(
        "policy/priority_aging.rs",
        "a higher priority is worth two steps",
        "steps_behind * Self::STEP",
        "2 * steps_behind * Self::STEP",
        Simulation("simulation/policies", "higher_priorities_run_first_and_waiting_counts", 100),
    ),
    mutant(
        "policy/priority_aging.rs",
        "a displaced G loses its place",
        "Cause::Displaced => ready.rank,",
        "Cause::Displaced if ready.rank == 0 => ready.rank,",
        Simulation("simulation/policies", "higher_priorities_run_first_and_waiting_counts", 100),
    ),
    mutant(
        "policy/priority_aging.rs",
        "waiting counts for nothing",
        "_ => ready.now.as_nanos() + steps_behind",
        "_ => steps_behind",
        Simulation("simulation/policies", "no_g_starves_beside_higher_priorities", 100),
    ),
    mutant(
        "policy/earliest_deadline.rs",
        "a G gets a new deadline when its slice is over",
        "Cause::SliceOver | Cause::Displaced, _",
        "Cause::Displaced, _",
        Simulation("simulation/policies", "earlier_deadlines_run_first", 100),
    ),
    mutant(
        "policy/earliest_deadline.rs",
        "a G that yields keeps its deadline",
        "(Cause::Yielded, _) | (_, 0) => NONE,",
        "(_, 0) => NONE,",
        Simulation("simulation/policies", "earlier_deadlines_run_first", 100),
    ),
    mutant(
        "refinements/by_policy.rs",
        "no G preempts another one",
        "&& policy.preempts(place.rank, running.0) {",
        "&& policy.preempts(u64::MAX, running.0) {",
        Simulation("simulation/policies", "readied_g_of_a_higher_priority_preempts", 1),
    ),
    mutant(
        "refinements/by_policy.rs",
        "a displaced G begins a new slice",
        "if cause == Cause::Displaced { now - processor.slice.began() } else { Duration::ZERO }",
        "Duration::ZERO",
        Simulation("simulation/policies", "priorities_deliver_messages_beside_hogs", 1),
    ),
    mutant(
        "refinements/by_policy.rs",
        "a thief takes only what the policy wants",
        "wanted.into_iter().chain(processors.iter().map(|victim| (victim, 1)))",
        "wanted",
        Simulation("simulation/policies", "no_g_is_lost_whatever_the_policy_decides", 100),
    ),
    mutant(
        "refinements/by_policy.rs",
        "a placed G wakes no M",
        "scheduler.submitted();",
        "",
        Simulation("simulation/policies", "higher_priorities_run_first_and_waiting_counts", 100),
    ),
    mutant(
        "refinements/by_policy.rs",
        "a pick leaves the Gs of the global queue there",
        "while scheduler.global_length.load(Ordering::Relaxed) != 0 {",
        "while false {",
        Simulation("simulation/policies", "earlier_deadlines_run_first", 100),
    ),
    mutant(
        "refinements/by_policy.rs",
        "only some picks ask the policy",
        "processor.request_slow_pick(); let locked",
        "let locked",
        Simulation("simulation/policies", "joiner_waits_for_its_turn", 1),
    ),
    mutant(
        "refinements/procs.rs",
        "the ranked Gs of a P that goes out of use are lost",
        "let runnable = ranked.chain(urgent).chain(",
        "drop(ranked); let runnable = urgent.chain(",
        Simulation("simulation/policies", "locked_gs_and_changes_of_the_number_of_ps", 100),
    ),
    mutant(
        "entities/ranked.rs",
        "the parameter of a slot's last G is that of the next one",
        "ranking.parameter.store(0, Ordering::Relaxed);",
        "",
        Simulation("simulation/policies", "new_g_has_no_parameter_of_an_old_one", 1),
    ),
];
