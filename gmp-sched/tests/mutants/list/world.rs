//! Mutants of stopping the world and starting it again.

use super::Catcher::{Model, Nobody, Simulation};
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "engine/idle.rs",
        "an M goes idle with its P while the world is being stopped",
        "            if shared.has_work() || scheduler.is_stopping() {",
        "            if shared.has_work() {",
        Model("world::stopping_against_an_m_that_goes_idle"),
    ),
    mutant(
        "engine/pick.rs",
        "an M that searches for work does not see that the world is being stopped",
        "        if scheduler.is_stopping() {
            hooks::stop_for_world(machine);
            continue;
        }",
        "",
        Model("world::stopping_against_a_g_that_spawns"),
    ),
    mutant(
        "engine/handoff.rs",
        "a P is handed off to another M while the world is being stopped",
        "            if self.is_stopping() {
                hooks::stop_processor(self, &mut shared, processor);
                return;
            }",
        "",
        Model("world::stopping_against_a_handoff"),
    ),
    mutant(
        "engine/syscall_return.rs",
        "a G continues after a system call while the world is being stopped",
        "    scheduler.is_stopping()
}",
        "    let _ = scheduler;
    false
}",
        Model("world::stopping_against_the_return"),
    ),
    mutant(
        "engine/syscall_return.rs",
        "the end of a system call has no fence before its check for a stop",
        "    fence(Ordering::SeqCst);",
        "",
        Model("world::stopping_against_the_return"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the stopper has no fence before it checks the Ps",
        "        fence(Ordering::SeqCst);
        for processor in self.processors() {",
        "        for processor in self.processors() {",
        Model("world::stopping_against_the_return"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "a P in a system call is not stopped",
        "            if processor.status.stop_in_syscall() {
                self.count_stopped(&mut self.shared.lock());
            }",
        "            let _ = processor;",
        Model("world::starting_against"),
    ),
    mutant(
        "entities/processor_status.rs",
        "a P in a system call is stopped while it is being retaken",
        "        self.claim(ProcessorStatus::Syscall, ProcessorStatus::StoppedInSyscall)",
        "        let is_in_call = self.get() == ProcessorStatus::Syscall;
        if is_in_call {
            self.set(ProcessorStatus::StoppedInSyscall);
        }
        is_in_call",
        Model("world::stopping_against_a_retake"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "a P in a system call is stopped but not counted",
        "                self.count_stopped(&mut self.shared.lock());",
        "",
        Model("world::starting_against"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "running Gs are not asked to stop",
        "                Plat::request_preemption(machine);",
        "",
        Model("world::stopping_against_the_return"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "a P becomes idle between the check of the idle Ps and the request to stop",
        "        self.world.stopping.store(true, Ordering::Relaxed);
        while let Some(processor) = self.take_idle_processor(&mut shared) {
            stop_processor(self, &mut shared, processor);
        }",
        "        while let Some(processor) = self.take_idle_processor(&mut shared) {
            stop_processor(self, &mut shared, processor);
        }
        drop(shared);
        self.world.stopping.store(true, Ordering::Relaxed);",
        Model("world::stopping_against_an_m_that_goes_idle"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "idle Ps are counted as stopped but stay on the idle list",
        "        while let Some(processor) = self.take_idle_processor(&mut shared) {
            stop_processor(self, &mut shared, processor);
        }",
        "        let idle = shared.idle_processors.len();
        for _ in 0..idle {
            self.count_stopped(&mut shared);
        }",
        Model("world::"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the last P that stops does not unpark the stopper",
        "            Plat::unpark_thread(stopper);",
        "            let _ = stopper;",
        Model("world::"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "an M that stops is not on the idle list",
        "        scheduler.put_idle_machine(&mut shared, machine);
    machine.end_spinning()",
        "    machine.end_spinning()",
        Model("world::"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "an M that stops stays counted as spinning",
        "    machine.end_spinning();
    stop_processor",
        "        stop_processor",
        Model("world::stopping_against_an_m_that_goes_idle"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "an M that stops keeps its P",
        "        machine.set_processor(None);
        machine.stopped_processor",
        "        machine.stopped_processor",
        Simulation("simulation/scheduling", "world_is_stopped_and_resized_under_load", 300),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "an M stops although the world has started again",
        "        if !scheduler.is_stopping() {
            return;
        }",
        "",
        Nobody(
            "the M holds a P. Before this P has stopped, the world is not stopped and cannot have started again. The \
             check makes this argument unnecessary.",
        ),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the start leaves Ps in system calls stopped",
        "ProcessorStatus::StoppedInSyscall => processor.status.set(ProcessorStatus::Syscall),",
        "ProcessorStatus::StoppedInSyscall => {}",
        Model("world::starting_against"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the start leaves a P with work idle",
        "                    ProcessorStatus::Stopped if processor.has_work() => {",
        "                    ProcessorStatus::Stopped if false => {",
        Nobody("the check of all queues that follows finds this work and wakes an M for it. That takes longer."),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the start assigns Ps to other Ms than those that held them",
        "            self.give_processors_back(&mut shared);
",
        "",
        Simulation("simulation/scheduling", "computing_gs_keep_their_cpus_when_the_world_starts", 100),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the start leaves the timekeeping to an M that is not idle",
        "        self.set_timekeeper(shared.idle_machines.back());
",
        "",
        Model("world::timekeeper_gets_its_p_back"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the start assigns a P that stays marked as stopped",
        "                        processor.status.set(ProcessorStatus::Running);
                        Plat::unpark_thread(self.assign",
        "                        Plat::unpark_thread(self.assign",
        Model("world::work_of_a_p_that_was_handed_off"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the start wakes no M for the work of the stopper",
        "        self.pass_search_on();",
        "        self.spinning.fetch_sub(1, Ordering::SeqCst);",
        Model("world::stopped_work_is_run_when_the_world_starts"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the stopper searches on without being counted as spinning",
        "            self.spinning.fetch_add(1, Ordering::SeqCst);",
        "",
        Model("world::"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the start wakes an M only if there is work, so no M checks the timers of idle Ps",
        "        self.pass_search_on();",
        "        if self.is_work_visible() {
            self.pass_search_on();
        } else {
            self.spinning.fetch_sub(1, Ordering::SeqCst);
        }",
        Model("world::timers_are_not_missed_when_the_world_starts"),
    ),
    mutant(
        "engine/syscall_return.rs",
        "an M whose P was stopped with the world takes another P as well",
        "        if old.is_some_and(|processor| processor.status.claim_from_syscall()) {
            return old;
        }",
        "",
        Model("world::starting_against"),
    ),
    mutant(
        "engine/syscall_return.rs",
        "an M whose P was stopped with the world leaves it behind",
        "        Some(processor) if processor.status.claim_from_syscall() => machine.take(processor),",
        "        Some(processor) if false => machine.take(processor),",
        Model("world::starting_against"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "an M that waits for the start leaves its P marked as stopped in a system call",
        "        processor.status.set(ProcessorStatus::Stopped);
    }
    is_stopped",
        "    }
    is_stopped",
        Model("world::"),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "the next G that waits to stop the world is not readied",
        "            ready_pinned(&pinned, goroutine);",
        "            let _ = goroutine;",
        Simulation("simulation/scheduling", "world_is_stopped_and_resized_under_load", 300),
    ),
    mutant(
        "refinements/stop_the_world.rs",
        "two Gs may stop the world at the same time",
        "            queue.is_taken = next.is_some();",
        "            queue.is_taken = false;",
        Simulation("simulation/scheduling", "world_is_stopped_and_resized_under_load", 300),
    ),
    mutant(
        "refinements/procs.rs",
        "a P that is retired keeps its runnable Gs",
        "        self.put_global_first(shared, runnable);",
        "",
        Simulation("simulation/scheduling", "world_is_stopped_and_resized_under_load", 300),
    ),
    mutant(
        "refinements/procs.rs",
        "a P that is retired keeps its timers",
        "        successor.timers.adopt(&processor.timers);",
        "",
        Simulation("simulation/scheduling", "world_is_stopped_and_resized_under_load", 300),
    ),
    mutant(
        "refinements/procs.rs",
        "an M whose P is retired during its system call is not counted as blocked",
        "            self.blocked_machines += 1;",
        "",
        Simulation("simulation/scheduling", "world_is_stopped_and_resized_under_load", 300),
    ),
];
