//! Cancellations and programs' timers.

use super::Catcher::{Model, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "library/cancel/node.rs",
        "a context that is made below one that has ended has not",
        "        if end.is_some() {
            child",
        "        if false {
            child",
        Model("cancel::a_child"),
    ),
    mutant(
        "library/cancel/node.rs",
        "a wait begins with a context that has ended",
        "        if state.end.is_none() {
            me.context_waiter",
        "        if true {
            me.context_waiter",
        Model("cancel::a_cancellation"),
    ),
    mutant(
        "library/cancel/node.rs",
        "the timer of a wait is armed when the wait may be over",
        "            state.waiters.push_back(&me.context_waiter);
            arm();
            return;",
        "            state.waiters.push_back(&me.context_waiter);
            drop(state);
            arm();
            return;",
        Model("cancel::a_cancellation"),
    ),
    mutant(
        "library/cancel/node.rs",
        "a cancellation does not reach those below",
        "            others = Some(child);",
        "            drop(child);",
        Simulation("simulation/cancel", "no_child", 300),
    ),
    mutant(
        "library/cancel/node.rs",
        "a cancellation stops at one that has ended",
        "                return others;",
        "                return None;",
        Model("cancel::two_cancellations"),
    ),
    mutant(
        "library/cancel/node.rs",
        "a context that has been cancelled does not say so",
        "            state.end = Some(if is_late { self.deadline_cause.clone() } else { cause.clone() });
            self.has_ended.store(true, Ordering::Release);",
        "            state.end = Some(if is_late { self.deadline_cause.clone() } else { cause.clone() });",
        Model("cancel::two_cancellations"),
    ),
    mutant(
        "library/time/slot.rs",
        "a firing of an earlier setting gives a tick",
        "    if setting.number != number || now < setting.fired {",
        "    if now < setting.fired {",
        Model("cancel::a_timer_is_set_anew"),
    ),
    mutant(
        "library/time/slot.rs",
        "a firing that was overtaken gives a tick",
        "    if setting.number != number || now < setting.fired {",
        "    if setting.number != number {",
        Model("cancel::ticks_come"),
    ),
    mutant(
        "library/time/slot.rs",
        "a firing on its way outlives the stop of its timer",
        "        setting.number += 1;
        self.timer.cancel",
        "        self.timer.cancel",
        Model("cancel::a_timer_is_stopped_while"),
    ),
    mutant(
        "engine/timers.rs",
        "a timer that has moved to another P is looked for where it was",
        "            if !self.home.load(Ordering::Relaxed).is_some_and(|now| core::ptr::eq(now, home)) {
                continue;
            }",
        "",
        Model("cancel::a_timer_is_stopped_in"),
    ),
];
