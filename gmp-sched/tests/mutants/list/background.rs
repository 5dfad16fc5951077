//! Mutants of the background G.

use super::Catcher::{Model, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "refinements/background.rs",
        "an M that takes the background G does not search a second time",
        "    if scheduler.is_work_visible() || scheduler.is_stopping() {",
        "    if scheduler.is_stopping() {",
        Model("background::submitter_against_a_spinning_m_that_takes_the_background_g"),
    ),
    mutant(
        "refinements/background.rs",
        "an M that takes the background G has no fence",
        "    fence(Ordering::SeqCst);
    Plat::point(Site::Idle);
    if",
        "    Plat::point(Site::Idle);
    if",
        Model("background::submitter_against_a_spinning_m_that_takes_the_background_g"),
    ),
    mutant(
        "refinements/background.rs",
        "two Ms take the background G",
        "    if !scheduler.background.is_parked.swap(false, Ordering::Acquire) {",
        "    if !scheduler.background.is_parked.load(Ordering::Acquire) {",
        Model("background::background_g_runs_once"),
    ),
    mutant(
        "refinements/background.rs",
        "a background G that leaves work wakes no M",
        "            self.submitted();",
        "",
        Model("background::background_g_that_leaves_work_against_an_idling_m"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that goes idle does not see that the background G is due",
        "            let is_queued = scheduler.is_queued_work_visible() || scheduler.is_background_due();",
        "            let is_queued = scheduler.is_queued_work_visible();",
        Simulation("simulation/background", "caches_are_empty_after_an_idle_second", 20),
    ),
    mutant(
        "entities/shared.rs",
        "the stacks of a P that was busy while the background G worked are forgotten",
        "            self.note_growth();",
        "",
        Simulation("simulation/background", "stacks_of_a_busy_p_are_given_back_when_it_is_idle", 1),
    ),
    mutant(
        "refinements/background.rs",
        "the background G works on while other Gs wait",
        "            if self.is_work_visible() || self.is_stopping() {",
        "            if self.is_stopping() {",
        Simulation("simulation/background", "other_gs_run_between_two_pieces", 200),
    ),
    mutant(
        "refinements/background.rs",
        "growth that is noted while the background G works is forgotten",
        "        Left::Nothing
    }",
        "        self.background.due.store(Instant::NEVER.as_nanos(), Ordering::Relaxed);
        Left::Nothing
    }",
        Simulation("simulation/background", "growth_during_the_work_is_given_back_later", 1),
    ),
    mutant(
        "engine/timekeeper.rs",
        "the timekeeper does not wake for the background G",
        "        timers.fold(self.background_due(), Instant::min)",
        "        timers.fold(Instant::NEVER, Instant::min)",
        Simulation("simulation/background", "caches_are_empty_after_an_idle_second", 20),
    ),
    mutant(
        "engine/deadlock.rs",
        "the background G counts as a G that waits",
        "            goroutine.status() == Status::Waiting && goroutine.id() != GoroutineId::BACKGROUND",
        "            goroutine.status() == Status::Waiting",
        Simulation("simulation/background", "background_g_is_none_of_those_that_are_left", 1),
    ),
    mutant(
        "refinements/retire.rs",
        "an M that ends does not ask the next one",
        "        if Plat::scavenger().is_some() {
            scheduler.end_surplus_machine();
        }",
        "",
        Simulation("simulation/background", "surplus_ms_end_and_are_used_again", 100),
    ),
    mutant(
        "kthread/switch.rs",
        "a thread that was unparked after its end does not run when it has a stack again",
        "        if !thread.token.commit_park() {
            self.make_ready(thread, Urgency::Waits);
        }",
        "        thread.token.commit_park();",
        Simulation("simulation/background", "surplus_ms_end_and_are_used_again", 2000),
    ),
];
