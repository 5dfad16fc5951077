//! Mutants of Ms that end because they have been idle for a long time.

use super::Catcher::Model;
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "refinements/retire.rs",
        "an M that has been assigned a P ends",
        "        if is_needed || is_assigned || scheduler",
        "        let _ = is_assigned;
        if is_needed || scheduler",
        Model("retire::submitter_against_an_m_that_ends"),
    ),
    mutant(
        "entities/shared.rs",
        "an M ends although a P needs it",
        "        (self.machines - self.blocked_machines) as usize > self.machines_wanted",
        "        (self.machines - self.blocked_machines) as usize >= self.machines_wanted",
        Model("retire::one_of_two_ms_ends"),
    ),
    mutant(
        "entities/shared.rs",
        "an M that ends does not count blocked Ms",
        "        (self.machines - self.blocked_machines) as usize > self.machines_wanted",
        "        self.machines as usize > self.machines_wanted",
        Model("retire::m_that_blocks_against_the_m_that_it_relies_on"),
    ),
    mutant(
        "refinements/retire.rs",
        "an M decides to end before it holds the lock",
        "        let is_needed = Plat::idle_limit().is_none_or(|limit| shared.surplus_since + limit > now);",
        "        let is_needed = Plat::idle_limit().is_none_or(|limit| shared.surplus_since + limit > now);
        drop(shared);
        Plat::point(crate::base::points::Site::Idle);
        let mut shared = scheduler.shared.lock();",
        Model("retire::m_that_blocks_against_the_m_that_it_relies_on"),
    ),
    mutant(
        "refinements/retire.rs",
        "an M that ends stays counted as existing",
        "        shared.machines -= 1;
        shared.update_surplus(now);
        self.set_retired(true);",
        "        self.set_retired(true);",
        Model("retire::one_of_two_ms_ends"),
    ),
    mutant(
        "refinements/retire.rs",
        "an M that ends stays on the idle list",
        "        self.leave_idle_list(&mut shared);
        shared.machines -= 1;",
        "        shared.machines -= 1;",
        Model("retire::submitter_against_an_m_that_ends"),
    ),
    mutant(
        "engine/idle.rs",
        "an M ends before it has checked for a deadlock",
        "            scheduler.check_dead();
            ends_at =",
        "            ends_at =",
        Model("retire::m_that_ends_reports_a_deadlock"),
    ),
    mutant(
        "engine/machines.rs",
        "an M is counted before it is idle",
        "        let (machine, is_new) = self.start_machine(retired)?;
        let _pinned = Pinned::<Plat>::of_scheduler();
        let mut shared = self.shared.lock();",
        "        self.shared.lock().machines += 1;
        let (machine, is_new) = self.start_machine(retired)?;
        let _pinned = Pinned::<Plat>::of_scheduler();
        let mut shared = self.shared.lock();
        shared.machines -= 1;",
        Model("retire::deadlock_is_found_while_an_m_is_made"),
    ),
];
