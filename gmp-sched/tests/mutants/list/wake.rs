//! Mutants of wakeups from outside of a scheduler.

use super::Catcher::Model;
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "entities/status.rs",
        "a waker takes Gs of all schedulers for Gs of its own scheduler",
        "        Self(scheduler << Self::SHIFT | Status::Waiting as u32)",
        "        Self((scheduler & 0) << Self::SHIFT | Status::Waiting as u32)",
        Model("wake::wake_from_another_scheduler_against_going_idle"),
    ),
    mutant(
        "engine/enqueue.rs",
        "no M is woken for a G that is readied from outside",
        "            self.assign_searcher(&mut shared)",
        "            None::<&Machine<Plat>>",
        Model("wake::two_schedulers"),
    ),
    mutant(
        "engine/enqueue.rs",
        "a waker from outside uses the scheduler after the G can run",
        "            self.assign_searcher(&mut shared)
        };
        if let Some(machine) = woken {
            Plat::unpark_thread(machine);
        }",
        "        };
        let () = woken;
        self.wake_processor();",
        Model("wake::waker_from_outside_changes_nothing_once_the_g_can_run"),
    ),
    mutant(
        "engine/enqueue.rs",
        "a waker from outside wakes another M after the G can run",
        "        if let Some(machine) = woken {
            Plat::unpark_thread(machine);
        }
    }
}",
        "        if let Some(machine) = woken {
            Plat::unpark_thread(machine);
        }
        self.wake_processor();
    }
}",
        Model("wake::late_waker_changes_nothing_of_the_next_run"),
    ),
    mutant(
        "entities/machine.rs",
        "an M still holds its P of the last run when its scheduler is used again",
        "        for processor in [&self.processor, &self.assigned_processor,",
        "        for processor in [&self.assigned_processor,",
        Model("wake::late_waker_changes_nothing_of_the_next_run"),
    ),
    mutant(
        "refinements/lock_os_thread.rs",
        "the M of a locked G is assigned a P but not unparked",
        "        drop(shared);
        Plat::unpark_thread(to);
        return;",
        "        drop(shared);
        return;",
        Model("wake::locked_g_is_readied_from_outside"),
    ),
];
