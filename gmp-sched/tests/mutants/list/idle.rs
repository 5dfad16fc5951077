//! Mutants of going idle and waking. The protocol is described in `src/engine/idle.md`.

use super::Catcher::{Model, Nobody, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "engine/wake.rs",
        "submit has no fence",
        "        fence(Ordering::SeqCst);
        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 &&",
        "        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 &&",
        Model("idle::submitter_against_an_idling_m"),
    ),
    mutant(
        "engine/wake.rs",
        "submit has a fence that is too weak",
        "        fence(Ordering::SeqCst);
        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 &&",
        "        fence(Ordering::AcqRel);
        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 &&",
        Model("idle::submitter_against_an_idling_m"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that changes Ps does not wake the timekeeper for the timers that it leaves behind",
        "            scheduler.wake_timekeeper(scheduler.earliest_timekeeper_timer());",
        "",
        Model("timers::m_leaves_timers_behind_for_another_p"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that changes Ps wakes the timekeeper for the timers that it leaves behind, but not for those of Ps in \
         system calls",
        "            scheduler.wake_timekeeper(scheduler.earliest_timekeeper_timer());",
        "            scheduler.wake_timekeeper(left.timers.earliest());",
        Model("timers::m_changes_ps_beside_timers_left_in_a_system_call"),
    ),
    mutant(
        "engine/idle.rs",
        "going idle has no fence",
        "        fence(Ordering::SeqCst);
        self.wait_for_processor",
        "        self.wait_for_processor",
        Model("idle::submitter_against_an_idling_m"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that goes idle does not search a second time",
        "            if (is_queued || scheduler.signals.is_ready()) && self.claim_idle_processor(is_queued) {",
        "            if false {",
        Model("idle::submitter_against_an_idling_m"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that is assigned a P drops the second search that submitters rely on",
        "                if must_recheck {
                    self.wake_if_work_is_visible();
                }
",
        "                let _ = (must_recheck, Self::wake_if_work_is_visible);
",
        Model("idle::submitter_against_a_spinning_m_that_is_assigned_a_p"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that goes idle overlooks the runnext of all Ps",
        "processors().iter().any(Processor::has_queued)",
        "processors().iter().any(|processor| processor.queue.len() != 0)",
        Simulation("composition", "spinning_m_that_goes_idle_finds_the_work_that_relied_on_it", 1),
    ),
    mutant(
        "engine/idle.rs",
        "an M that goes idle overlooks the urgent queues of all Ps",
        "processors().iter().any(Processor::has_queued)",
        "processors().iter().any(|processor| !processor.queue.is_empty())",
        Model("syscall::return_from_a_blocking_call_against_an_idling_m"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that is assigned a P overlooks the queue of that P",
        "        if scheduler.is_queued_work_visible() {
            scheduler.wake_processor();
        }",
        "        let own = self.held_processor();
        let others = scheduler.processors().iter().filter(|processor| !core::ptr::eq(*processor, own));
        if { others }.any(|processor| !processor.queue.is_empty()) {
            scheduler.wake_processor();
        }",
        Model("idle::submitter_that_blocks_against_a_spinning_m_that_goes_idle"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that is assigned a P wakes no M for the first G in the queue of that P",
        "        if scheduler.is_queued_work_visible() {
            scheduler.wake_processor();
        }",
        "        let own = self.held_processor();
        let has_more = |processor: &'static Processor<Plat>| match core::ptr::eq(processor, own) {
            true => processor.queue.len() + usize::from(processor.queue.next().is_some()) > 1,
            false => !processor.queue.is_empty(),
        };
        if scheduler.global_length.load(Ordering::Relaxed) != 0
            || scheduler.processors().iter().any(has_more)
            || scheduler.signals.is_ready()
        {
            scheduler.wake_processor();
        }",
        Nobody(
            "the M runs another G first only if a timer of the assigned P is due, and then `go_idle` wakes the \
             timekeeper, which sees the G in the queue",
        ),
    ),
    mutant(
        "engine/idle.rs",
        "an M that has seen work and is then assigned a P wakes no M for the work it saw",
        "            let is_assigned = self.take_assigned();
            self.wake_if_work_is_visible();
",
        "            let is_assigned = self.take_assigned();
",
        Model("idle::submitter_against_a_spinning_m_that_is_assigned_a_p"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that goes idle does not check the global queue under the lock",
        "            if shared.has_work() || scheduler.is_stopping() {",
        "            if scheduler.is_stopping() {",
        Nobody(
            "the check of all queues in idle.3 comes after the critical section and finds the G too. The early check \
             saves giving up the P.",
        ),
    ),
    mutant(
        "engine/wake.rs",
        "a waker that finds no idle P does not check again",
        "            self.spinning.fetch_sub(1, Ordering::SeqCst);
            if !self.begin_spinning() {
                return;
            }",
        "            self.spinning.fetch_sub(1, Ordering::SeqCst);
            return;",
        Model("idle::waker_that_finds_no_idle_p_checks_again"),
    ),
    mutant(
        "engine/wake.rs",
        "a waker that finds no idle P stays counted as spinning",
        "            self.spinning.fetch_sub(1, Ordering::SeqCst);
            if !self.begin_spinning() {
                return;
            }",
        "            return;",
        Model("idle::waker_that_finds_no_idle_p_checks_again"),
    ),
    mutant(
        "engine/wake.rs",
        "a woken M is marked as spinning after it can see its P",
        "        self.spinning.store(assignment == Assignment::Search, Ordering::Relaxed);
        self.assigned_processor.store(Some(processor), Ordering::Release);",
        "        self.assigned_processor.store(Some(processor), Ordering::Release);
        self.spinning.store(assignment == Assignment::Search, Ordering::Relaxed);",
        Model("idle::submitter_against_an_idling_m"),
    ),
    mutant(
        "engine/wake.rs",
        "a P is assigned without Release",
        "        self.assigned_processor.store(Some(processor), Ordering::Release);",
        "        self.assigned_processor.store(Some(processor), Ordering::Relaxed);",
        Model("idle::"),
    ),
    mutant(
        "engine/idle.rs",
        "an M takes its assigned P without Acquire",
        "self.assigned_processor.load(Ordering::Acquire)",
        "self.assigned_processor.load(Ordering::Relaxed)",
        Model("idle::m_that_wakes_spuriously"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that finds work stays on the idle list",
        "        shared.idle_machines.remove(self);",
        "",
        Model("idle::submitter_against_an_idling_m"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that finds work overlooks that it has been assigned a P",
        "        if self.assigned_processor.load(Ordering::Relaxed).is_some() {
            drop(shared);
            let is_assigned = self.take_assigned();
            self.wake_if_work_is_visible();
            return is_assigned;
        }",
        "",
        Model("idle::"),
    ),
    mutant(
        "engine/idle.rs",
        "an M that finds work is not counted as spinning",
        "            self.begin_to_spin(processor);",
        "",
        Model("idle::submitter_of_two_against_a_spinning_m_that_goes_idle"),
    ),
    mutant(
        "engine/idle.rs",
        "a spinning M that goes idle stays counted as spinning",
        "            self.end_spinning();",
        "",
        Model("idle::submitter_against_a_spinning_m_that_gives_up"),
    ),
    mutant(
        "engine/wake.rs",
        "a spinning M that finds work wakes no other M",
        "    if machine.end_spinning() {
        machine.scheduler().wake_processor();
    }",
        "    machine.end_spinning();",
        Model("idle::submitter_against_a_spinning_m_that_finds_work"),
    ),
    mutant(
        "engine/wake.rs",
        "a spinning M that finds work wakes another M while it still counts as spinning",
        "    if machine.end_spinning() {
        machine.scheduler().wake_processor();
    }",
        "    if machine.is_spinning() {
        machine.scheduler().wake_processor();
        machine.end_spinning();
    }",
        Model("idle::submitter_against_a_spinning_m_that_finds_work"),
    ),
];
