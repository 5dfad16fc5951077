//! Mutants of Gs that are locked to their Ms.

use super::Catcher::{Model, Test};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "refinements/lock_os_thread.rs",
        "the M of a locked G that another M has found is not unparked",
        "            to.assign_to_locked(&mut shared, processor);
        }
        Plat::unpark_thread(to);",
        "            to.assign_to_locked(&mut shared, processor);
        }",
        Model("locked::locked_g_that_yields_is_found_by_another_m"),
    ),
    mutant(
        "refinements/lock_os_thread.rs",
        "an M that hands its P to the M of a locked G is not put on the idle list",
        "            scheduler.put_idle_machine(&mut shared, self);
            to.assign_to_locked(&mut shared, processor);",
        "            to.assign_to_locked(&mut shared, processor);",
        Model("locked::locked_g_that_returns_from_a_system_call_is_found_by_another_m"),
    ),
    mutant(
        "entities/machine.rs",
        "an M that has been assigned a P for its locked G is counted as waiting for one",
        "        if self.assigned_processor.load(Ordering::Relaxed).is_none() && !self.locked.waits",
        "        if !self.locked.waits",
        Model("locked::locked_g_that_returns_from_a_system_call_is_found_by_another_m"),
    ),
    mutant(
        "refinements/lock_os_thread.rs",
        "an M that is assigned a P for its locked G stays counted as waiting for one",
        "            shared.idle_locked -= 1;",
        "",
        Model("locked::locked_g_that_yields_is_found_by_another_m"),
    ),
    mutant(
        "refinements/lock_os_thread.rs",
        "a locked G that continues on its M at once stays on the list on which other Ms find it",
        "            scheduler.take_locked(&mut shared);
            processor.advance_tick();",
        "            processor.advance_tick();",
        Model("locked::locked_g_that_yields_is_found_by_another_m"),
    ),
    mutant(
        "refinements/lock_os_thread.rs",
        "a G undoes the lock of another G",
        ".is_some_and(|me| core::ptr::eq(me, goroutine) && me.id() == id)",
        ".is_some_and(|me| core::ptr::eq(me, goroutine) || me.id() != id)",
        Test("threads/stop_the_world", "g_cannot_be_unlocked_by_the_lock_of_another_g"),
    ),
    mutant(
        "engine/syscall.rs",
        "a G with a section from a system call continues on another thread",
        "            if has_to_stay {
                hooks::stay_on(machine);
            }",
        "",
        Test("reports/sections", "g_with_a_section_from_a_blocking_call_stays_on_its_thread"),
    ),
];
