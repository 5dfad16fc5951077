//! Kernel threads.

use super::Catcher::{Model, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "kthread/place.rs",
        "making ready has no fence",
        "            fence(Ordering::SeqCst);
            C::point(Site::ReadyList);
            match",
        "            C::point(Site::ReadyList);
            match",
        Model("kthread::a_ready"),
    ),
    mutant(
        "kthread/place.rs",
        "going idle has no fence",
        "        fence(Ordering::SeqCst);
        C::point(Site::ReadyList);
        let next",
        "        C::point(Site::ReadyList);
        let next",
        Model("kthread::a_ready"),
    ),
    mutant(
        "kthread/place.rs",
        "a CPU looks before it says that it is idle",
        "        cpu.idle.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        C::point(Site::ReadyList);
        let next = self.take_ready()?;",
        "        let Some(next) = self.take_ready() else {
            cpu.idle.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            return None;
        };",
        Model("kthread::a_ready"),
    ),
    mutant(
        "kthread/place.rs",
        "a claim of a CPU that found another thread is not passed on",
        "        if claimed && let Some(other) = self.claim_idle(0, 0) {
            C::kick(other);
        }",
        "        let _ = claimed;",
        Model("kthread::two_ready_threads_against_two"),
    ),
    mutant(
        "kthread/place.rs",
        "the length of a ready list is not told",
        "                ready.push_back(thread);
                self.cpus[target].ready_length.store(ready.len(), Ordering::Relaxed);",
        "                ready.push_back(thread);",
        Model("kthread::a_ready"),
    ),
    mutant(
        "kthread/place.rs",
        "an idle CPU is not kicked",
        "                Some(idle) => C::kick(idle),",
        "                Some(_) => {}",
        Model("kthread::a_ready"),
    ),
    mutant(
        "kthread/place.rs",
        "making ready has a fence that is too weak",
        "            fence(Ordering::SeqCst);
            C::point(Site::ReadyList);
            match",
        "            fence(Ordering::AcqRel);
            C::point(Site::ReadyList);
            match",
        Model("kthread::two_wakers"),
    ),
    mutant(
        "kthread/place.rs",
        "a CPU is kicked that was idle before, and not the one that is claimed",
        "                Some(idle) => C::kick(idle),",
        "                Some(_) => C::kick(target),",
        Model("kthread::two_ready_threads_against_a_halting"),
    ),
    mutant(
        "kthread/mod.rs",
        "threads take turns whenever the timer fires",
        "        now.since(since) >= turn && self.make_room()",
        "        now.since(since) >= turn.min(core::time::Duration::ZERO) && self.make_room()",
        Simulation("simulation/preemption", "threads_take_turns", 300),
    ),
    mutant(
        "kthread/mod.rs",
        "threads do not take turns",
        "        now.since(since) >= turn && self.make_room()",
        "        false && now.since(since) >= turn",
        Simulation("simulation/preemption", "hogs", 300),
    ),
];
