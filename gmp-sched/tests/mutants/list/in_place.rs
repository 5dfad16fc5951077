//! Mutants of preemption in place.

use super::Catcher::{Model, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "refinements/preempt_in_place.rs",
        "a G that is preempted is not marked as preempted",
        "            self.locked.is_preempted.store(true, Ordering::Relaxed);",
        "",
        Model("in_place::preempted_g_is_found_by_another_m"),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "a G that continues counts as preempted",
        "            shared.preempted -= 1;",
        "            let _ = &mut shared.preempted;",
        Model("in_place::preempted_g_is_found_by_another_m"),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "the M of a G that continues counts as blocked",
        "            shared.blocked_machines -= 1;",
        "",
        Model("in_place::preempted_g_is_found_by_another_m"),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "no M is woken for a G that is preempted while a P is idle",
        "        scheduler.submitted();
    }",
        "    }",
        Model("in_place::preempted_g_is_found_by_another_m"),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "the M that gets the P in an exchange is not unparked",
        "            Successor::Preempted(next) => Plat::unpark_thread(next),",
        "            Successor::Preempted(_) => {}",
        Model("in_place::g_at_the_limit_exchanges_its_p"),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "no M is woken after an exchange while a P is idle",
        "            Successor::Preempted(next) => Plat::unpark_thread(next),",
        "            Successor::Preempted(next) => {
                Plat::unpark_thread(next);
                return;
            }",
        Model("in_place::exchange_against_an_m_that_goes_idle"),
    ),
    mutant(
        "engine/slice.rs",
        "sysmon ends the slice that has just begun in place of the one that it has measured",
        "        self.slice.ends.store(tick, Ordering::Relaxed);",
        "        let _ = tick;
        self.slice.ends.store(self.tick(), Ordering::Relaxed);",
        Model("in_place::sysmon_against_an_exchange"),
    ),
    mutant(
        "entities/current_slice.rs",
        "sysmon sees a slice that has begun, but not when",
        "        self.seen.store(tick, Ordering::Release);",
        "        self.seen.store(tick, Ordering::Relaxed);",
        Model("in_place::sysmon_against_an_exchange"),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "a G gives its P up although there is no M for it",
        "is_allowed(&shared) && shared.has_surplus();",
        "is_allowed(&shared);",
        Model("in_place::g_that_has_to_give_way_against_the_thread_that_makes_ms"),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "at the limit, the world does not stop",
        "shared.preempted < limit || reason == PreemptReason::WorldStop;",
        "shared.preempted < limit;",
        Model("world::stopping_against_a_g_that_is_preempted_in_place"),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "no M is requested for a G that has to give way",
        "            Plat::request_machine(scheduler);",
        "",
        Simulation("simulation/in_place", "hogs_with_a_thread_each_take_turns", 20),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "a G whose slice is over goes before the other preempted Gs",
        "                shared.locked.push_back(me);",
        "                shared.locked.push_front(me);",
        Simulation("simulation/in_place", "gs_that_spin_for_a_preempted_g_let_it_continue", 60),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "a G that continues runs in the slice of another G",
        "    processor.advance_tick();
    await_next",
        "    await_next",
        Simulation("simulation/in_place", "hogs_at_the_limit_exchange_their_ps", 60),
    ),
    mutant(
        "refinements/preempt_in_place.rs",
        "a G that displaces another one is not looked for first",
        "            processor.request_global_check();",
        "",
        Simulation("simulation/in_place", "displaced_g_continues_in_the_rest_of_its_slice", 60),
    ),
];
