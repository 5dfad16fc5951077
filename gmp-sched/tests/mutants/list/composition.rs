//! Mutants of the interactions between protocols.

use super::Catcher::Simulation;
use super::{Mutant, mutant};

/// The number of seeds. The programs of `tests/composition.rs` depend on no seed, so one run is enough.
const ONE: u32 = 1;

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "engine/syscall_return.rs",
        "an M that returns from a blocking call to an idle P stays counted as blocked",
        "        let processor = self.scheduler().take_idle_processor_preferring(&mut shared, old)?;
        unblock(self, &mut shared);",
        "        let processor = self.scheduler().take_idle_processor_preferring(&mut shared, old)?;",
        Simulation("composition", "handing_off_while_others_submit", ONE),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "an M that gives its P up for a stop is not put on the idle list",
        "        machine.stopped_processor.store(Some(processor), Ordering::Relaxed);
        scheduler.put_idle_machine(&mut shared, machine);",
        "        machine.stopped_processor.store(Some(processor), Ordering::Relaxed);",
        Simulation("composition", "stopping_and_starting_the_world", ONE),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "an M that gives its P up for a stop stays counted as spinning",
        "    machine.end_spinning();
    stop_processor",
        "        stop_processor",
        Simulation("composition", "stopping_and_starting_the_world", ONE),
    ),
    mutant(
        "refinements/procs.rs",
        "a P that comes into use is not marked as stopped, so that the start of the world ignores it",
        "            processor.status.set(ProcessorStatus::Stopped);
        }
        scheduler.set_procs",
        "            let _ = processor;
        }
        scheduler.set_procs",
        Simulation("composition", "changing_the_number_of_processors", ONE),
    ),
    mutant(
        "refinements/procs.rs",
        "the runnable Gs of a P that is retired are forgotten",
        "        self.put_global_first(shared, runnable);",
        "        runnable.for_each(drop);",
        Simulation("composition", "changing_the_number_of_processors", ONE),
    ),
    mutant(
        "refinements/procs.rs",
        "an M in a system call whose P is retired is not counted as blocked",
        "        shared.forget_caller(processor);
        processor.status.set(ProcessorStatus::Dead);",
        "        processor.status.set(ProcessorStatus::Dead);",
        Simulation("composition", "changing_the_number_of_processors", ONE),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "a P that was stopped in a system call stays stopped when the world starts",
        "                    ProcessorStatus::StoppedInSyscall => processor.status.set(ProcessorStatus::Syscall),",
        "                    ProcessorStatus::StoppedInSyscall => {}",
        Simulation("composition", "stopping_and_starting_the_world", ONE),
    ),
    mutant(
        "engine/idle.rs",
        "an M that goes idle parks without searching for work that was submitted while it was spinning",
        "            if (is_queued || scheduler.signals.is_ready()) && self.claim_idle_processor(is_queued) {
                return;
            }",
        "            let _ = (is_queued, Self::claim_idle_processor);",
        Simulation("composition", "spinning_m_that_goes_idle_finds_the_work_that_relied_on_it", ONE),
    ),
    mutant(
        "engine/idle.rs",
        "an M that is assigned a P while it goes idle wakes no M for work that was submitted while it was spinning",
        "    fn wake_if_work_is_visible(&'static self) {
        let scheduler = self.scheduler();",
        "    fn wake_if_work_is_visible(&'static self) {
        return;
        #[allow(unreachable_code)]
        let scheduler = self.scheduler();",
        Simulation("composition", "idling_m_that_is_assigned_a_p_wakes_another_for_the_other_work", ONE),
    ),
    mutant(
        "engine/handoff.rs",
        "a P that is handed off becomes idle while the world is being stopped",
        "            if self.is_stopping() {
                hooks::stop_processor(self, &mut shared, processor);
                return;
            }",
        "",
        Simulation("composition", "hand_off_stops", ONE),
    ),
    mutant(
        "engine/syscall.rs",
        "a G that was asked to stop during a system call continues after the call",
        "        if (has_to_stop(scheduler) || gives_way_to_others(scheduler, processor)) && !has_to_stay {",
        "        let _ = (has_to_stop::<Plat>, gives_way_to_others::<Plat>, scheduler, processor, has_to_stay);
        if false {",
        Simulation("composition", "stop_request_during_a_system_call_takes_effect_at_its_end", ONE),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "stopping the world waits for the end of every system call",
        "            if processor.status.stop_in_syscall() {
                self.count_stopped(&mut self.shared.lock());
            }",
        "            let _ = (processor, Self::count_stopped);",
        Simulation("composition", "world_stops_while_a_system_call", ONE),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "no M is woken for Gs that became runnable while the world was stopped",
        "        self.pass_search_on();",
        "        self.spinning.fetch_sub(1, Ordering::SeqCst);",
        Simulation("composition", "gs_spawned_while_the_world", ONE),
    ),
    mutant(
        "engine/handoff.rs",
        "the timekeeper is not woken for the timers of a P that is handed off",
        "        self.wake_timekeeper(self.earliest_timekeeper_timer());",
        "",
        Simulation("composition", "timer_of_a_handed_off_p_fires_in_time", ONE),
    ),
    mutant(
        "refinements/procs.rs",
        "the timers of a retired P stay with it",
        "        successor.timers.adopt(&processor.timers);",
        "        let _ = successor;",
        Simulation("composition", "timer_of_a_retired_p_fires_in_time", ONE),
    ),
    mutant(
        "engine/wake.rs",
        "an M that has found work stays counted as spinning",
        "    if machine.end_spinning() {",
        "    if machine.spinning.swap(false, Ordering::Relaxed) {",
        Simulation("composition", "submitting_and_going_idle", ONE),
    ),
    mutant(
        "engine/handoff.rs",
        "a P that sysmon takes from a system call is not handed off",
        "        self.hand_off(processor);
        true",
        "        true",
        Simulation("composition", "long_system_calls_are_retaken", ONE),
    ),
    mutant(
        "engine/timekeeper.rs",
        "the timekeeper parks without a deadline",
        "                return (earliest != Instant::NEVER).then_some(earliest);",
        "                return None;",
        Simulation("composition", "timekeeping", ONE),
    ),
    mutant(
        "engine/handoff.rs",
        "an M that is about to block is not counted as blocked",
        "                    shared.blocked_machines += 1;",
        "",
        Simulation("composition", "everything_together", ONE),
    ),
    mutant(
        "engine/enqueue.rs",
        "a yield wakes no M for the G that yields",
        "        overflow(goroutine.scheduler(), processor, goroutine);
    } else if !processor.is_alone() {",
        "        overflow(goroutine.scheduler(), processor, goroutine);
    } else if false {",
        Simulation("composition", "g_that_yields_wakes_an_m", ONE),
    ),
    mutant(
        "engine/handoff.rs",
        "an M that has returned from its system call before the retake stays counted as blocked",
        "            self.shared.lock().blocked_machines -= 1;
            return false;",
        "            return false;",
        Simulation("composition", "retake_that_comes_too_late", ONE),
    ),
    mutant(
        "engine/timekeeper.rs",
        "the timekeeper parks without reading the timers again",
        "            if self.earliest_timekeeper_timer() >= earliest {",
        "            if true {",
        Simulation("composition", "timekeeper_that_woke_in_vain", ONE),
    ),
];
