//! Mutants of cancellations and of programs' timers.

use super::Catcher::{Model, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "library/limit/node.rs",
        "a context derived from one that has ended is not ended",
        "                child.has_ended.store(true, Ordering::Release);",
        "",
        Model("cancel::context_derived_during_cancellation_is_cancelled"),
    ),
    mutant(
        "library/limit/node.rs",
        "a wait begins although its context has ended",
        "        if state.end.is_none() {
            me.context_waiter",
        "        if true {
            me.context_waiter",
        Model("cancel::wait_ends_once_by_cancellation_or_deadline_during_its_commit"),
    ),
    mutant(
        "library/limit/node.rs",
        "the timer of a wait is armed without the context's lock, when the wait may be over",
        "            state.waiters.push_back(&me.context_waiter);
            arm();
            return;",
        "            state.waiters.push_back(&me.context_waiter);
            drop(state);
            arm();
            return;",
        Model("cancel::wait_ends_once_by_cancellation_or_deadline_during_its_commit"),
    ),
    mutant(
        "library/limit/node.rs",
        "a cancellation does not reach descendants",
        "            others = Some(child);",
        "            drop(child);",
        Simulation("simulation/cancel", "context_derived_during_cancellation_is_cancelled", 300),
    ),
    mutant(
        "library/limit/node.rs",
        "a cancellation stops at a descendant that has already ended",
        "                return others;",
        "                return None;",
        Model("cancel::two_overlapping_cancellations_end_all_descendants"),
    ),
    mutant(
        "library/limit/node.rs",
        "a cancelled context is not marked as ended",
        "            state.end = Some(if is_late { self.deadline_cause.clone() } else { cause.clone() });
            self.has_ended.store(true, Ordering::Release);",
        "            state.end = Some(if is_late { self.deadline_cause.clone() } else { cause.clone() });",
        Model("cancel::two_overlapping_cancellations_end_all_descendants"),
    ),
    mutant(
        "library/time/slot.rs",
        "a firing of an earlier setting delivers a tick",
        "    if setting.number != number {",
        "    if setting.number == u64::MAX {",
        Model("cancel::timer_reset_while_it_fires_delivers_no_stale_tick"),
    ),
    mutant(
        "library/time/slot.rs",
        "a firing that is under way delivers its tick after the timer was stopped",
        "        setting.number += 1;
        if mem::take(&mut setting.is_armed) {",
        "        if mem::take(&mut setting.is_armed) {",
        Model("cancel::timer_stopped_while_it_fires_leaves_no_tick"),
    ),
    mutant(
        "library/time/slot.rs",
        "a ticker that fires while nobody waits is off",
        "        ticks.set_dormant(is_set && !is_awaited);",
        "        ticks.set_dormant(is_set && !is_awaited && setting.period.is_zero());",
        Model("cancel::wait_that_begins_while_a_ticker_becomes_dormant_gets_a_tick"),
    ),
    mutant(
        "entities/timers.rs",
        "a timer that has moved to another P is removed from its former P",
        "            if !self.timers.load(Ordering::Relaxed).is_some_and(|now| core::ptr::eq(now, timers)) {
                continue;
            }",
        "",
        Model("cancel::timer_moved_from_a_retired_p_is_stopped_in_a_system_call"),
    ),
];
