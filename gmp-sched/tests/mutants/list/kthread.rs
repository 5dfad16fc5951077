//! Mutants of kernel threads.

use super::Catcher::{Model, Nobody, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "kthread/placement.rs",
        "making a thread ready has no fence",
        "            fence(Ordering::SeqCst);
            C::point(Site::ReadyList);
            match",
        "            C::point(Site::ReadyList);
            match",
        Model("kthread::one_ready_thread_against_a_halting_cpu"),
    ),
    mutant(
        "kthread/placement.rs",
        "a CPU that goes idle has no fence",
        "        fence(Ordering::SeqCst);
        C::point(Site::ReadyList);
        let next",
        "        C::point(Site::ReadyList);
        let next",
        Model("kthread::one_ready_thread_against_a_halting_cpu"),
    ),
    mutant(
        "kthread/placement.rs",
        "a CPU checks the lists before it sets its idle bit",
        "        cpu.idle.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        C::point(Site::ReadyList);
        let next = self.take_ready()?;",
        "        let Some(next) = self.take_ready() else {
            cpu.idle.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            return None;
        };",
        Model("kthread::one_ready_thread_against_a_halting_cpu"),
    ),
    mutant(
        "kthread/placement.rs",
        "a CPU that was claimed but has found another thread does not kick another idle CPU",
        "        if claimed && let Some(other) = self.claim_idle(0, 0) {
            C::kick(other);
        }",
        "        let _ = claimed;",
        Model("kthread::two_ready_threads_against_two"),
    ),
    mutant(
        "kthread/placement.rs",
        "the length of a ready list is not stored",
        "                ready.push_back(thread);
                self.cpus[target].ready_length.store(ready.len(), Ordering::Relaxed);",
        "                ready.push_back(thread);",
        Model("kthread::one_ready_thread_against_a_halting_cpu"),
    ),
    mutant(
        "kthread/placement.rs",
        "an idle CPU is not kicked",
        "                Some(idle) => C::kick(idle),",
        "                Some(_) => {}",
        Model("kthread::one_ready_thread_against_a_halting_cpu"),
    ),
    mutant(
        "kthread/placement.rs",
        "making a thread ready has a fence that is too weak",
        "            fence(Ordering::SeqCst);
            C::point(Site::ReadyList);
            match",
        "            fence(Ordering::AcqRel);
            C::point(Site::ReadyList);
            match",
        Model("kthread::two_wakers"),
    ),
    mutant(
        "kthread/placement.rs",
        "the CPU chosen first is kicked instead of the claimed one",
        "                Some(idle) => C::kick(idle),",
        "                Some(_) => C::kick(target),",
        Model("kthread::two_ready_threads_against_a_halting"),
    ),
    mutant(
        "kthread/mod.rs",
        "threads preempt each other at every timer interrupt",
        "        now - since >= granularity && self.make_room()",
        "        now - since >= granularity.min(core::time::Duration::ZERO) && self.make_room()",
        Simulation("simulation/preemption", "threads_run_for_their_granularity_beside_due_timers", 300),
    ),
    mutant(
        "kthread/mod.rs",
        "ready threads never preempt the running one",
        "        now - since >= granularity && self.make_room()",
        "        false && now - since >= granularity",
        Simulation("simulation/preemption", "hogs", 300),
    ),
    mutant(
        "kthread/switch.rs",
        "the start of a thread forgets a kick",
        "        if cpu.is_displaced.load(Ordering::Relaxed) {",
        "        if cpu.is_displaced.swap(false, Ordering::Relaxed) && false {",
        Model("kthread::kick_between_taking_and_starting_a_thread_is_kept"),
    ),
    mutant(
        "kthread/placement.rs",
        "a CPU takes a thread and keeps the request made to the thread before it",
        "        here.is_displaced.store(false, Ordering::Relaxed);
        take_from",
        "        take_from",
        Nobody("the thread that is started gives way once too often, to a thread that is ready."),
    ),
];
