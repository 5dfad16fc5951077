//! Mutants of the completion word, which a G shares with its join handle. See `src/lifecycle/join.rs`.

use super::Catcher::{Model, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "lifecycle/join.rs",
        "a waiter's context is published without Release",
        "compare_exchange(ATTACHED, waiter, Ordering::Release, Ordering::Relaxed)",
        "compare_exchange(ATTACHED, waiter, Ordering::Relaxed, Ordering::Relaxed)",
        Model("join::waiter_against_the_end_of_its_g"),
    ),
    mutant(
        "lifecycle/join.rs",
        "a waiter overwrites the mark of the result",
        "    goroutine.completion.compare_exchange(ATTACHED, waiter, Ordering::Release, Ordering::Relaxed).is_ok()",
        "    goroutine.completion.store(waiter, Ordering::Release);
    true",
        Model("join::waiter_against_the_end_of_its_g"),
    ),
    mutant(
        "lifecycle/join.rs",
        "a result is published without Release",
        "    match me.completion.swap(RESULT, Ordering::AcqRel) {",
        "    match me.completion.swap(RESULT, Ordering::Acquire) {",
        Model("join::"),
    ),
    mutant(
        "lifecycle/join.rs",
        "the end of a G readies the waiter without Acquire, so it may not see the waiter's context",
        "    match me.completion.swap(RESULT, Ordering::AcqRel) {",
        "    match me.completion.swap(RESULT, Ordering::Release) {",
        Model("join::waiter_against_the_end_of_its_g"),
    ),
    mutant(
        "lifecycle/join.rs",
        "a handle checks for a result without Acquire",
        "    matches!(goroutine.completion.load(Ordering::Acquire), RESULT | DONE)",
        "    matches!(goroutine.completion.load(Ordering::Relaxed), RESULT | DONE)",
        Model("join::waiter_against_the_end_of_its_g"),
    ),
    mutant(
        "lifecycle/join.rs",
        "a dropped handle drops the result without Acquire",
        "compare_exchange(ATTACHED, DETACHED, Ordering::AcqRel, Ordering::Acquire)",
        "compare_exchange(ATTACHED, DETACHED, Ordering::AcqRel, Ordering::Relaxed)",
        Model("join::dropped_handle_against_the_end_of_its_g"),
    ),
    mutant(
        "lifecycle/join.rs",
        "the slot is reused while its result is being read",
        "compare_exchange(RESULT, DETACHED, Ordering::Release, Ordering::Acquire)",
        "compare_exchange(RESULT, DETACHED, Ordering::Relaxed, Ordering::Acquire)",
        Model("join::"),
    ),
    mutant(
        "lifecycle/join.rs",
        "the slot is reused while the G takes its last steps",
        "compare_exchange(RESULT, DETACHED, Ordering::Release, Ordering::Acquire)",
        "compare_exchange(RESULT, DETACHED, Ordering::Release, Ordering::Relaxed)",
        Model("join::"),
    ),
    mutant(
        "lifecycle/join.rs",
        "the handle reuses the slot even if the G has not left it",
        "    if !far_side_releases_it {
        recycle",
        "    let _ = far_side_releases_it;
    {
        recycle",
        Model("join::"),
    ),
    mutant(
        "lifecycle/join.rs",
        "the handle finds that the G has left its stack, and reuses the slot without Acquire",
        "goroutine.completion.load(Ordering::Acquire) == DONE",
        "goroutine.completion.load(Ordering::Relaxed) == DONE",
        Model("join::"),
    ),
    mutant(
        "lifecycle/join.rs",
        "the far side also releases the slot of a G that has switched to its joiner",
        "        DONE => false,",
        "        DONE => true,",
        Model("join::waiter_against_the_end_of_a_g_that_switches_to_it"),
    ),
    mutant(
        "lifecycle/finish.rs",
        "a G that ends switches to its joiner past the G of `runnext`",
        "        && (Plat::TIMER_INTERRUPTS || !processor.has_due_timer())
        && processor.queue.next().is_none()",
        "        && (Plat::TIMER_INTERRUPTS || !processor.has_due_timer())",
        Test("order", "joiner_runs_next"),
    ),
    mutant(
        "lifecycle/join.rs",
        "the far side marks the end without Release",
        "goroutine.completion.swap(DONE, Ordering::AcqRel) == DETACHED",
        "goroutine.completion.swap(DONE, Ordering::Acquire) == DETACHED",
        Model("join::"),
    ),
    mutant(
        "lifecycle/join.rs",
        "the far side reuses the slot without Acquire",
        "goroutine.completion.swap(DONE, Ordering::AcqRel) == DETACHED",
        "goroutine.completion.swap(DONE, Ordering::Release) == DETACHED",
        Model("join::"),
    ),
    mutant(
        "lifecycle/join.rs",
        "the far side finds the handle released and reuses the slot without Acquire",
        "    match goroutine.completion.load(Ordering::Acquire) {
        DETACHED",
        "    match goroutine.completion.load(Ordering::Relaxed) {
        DETACHED",
        Model("join::"),
    ),
    mutant(
        "lifecycle/join.rs",
        "a G without a handle keeps its slot",
        "            me.completion.store(DETACHED, Ordering::Relaxed);",
        "            let _ = me;",
        Model("join::"),
    ),
];
