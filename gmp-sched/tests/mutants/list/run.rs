//! What only shows when Gs really run.

use super::Catcher::Simulation;
use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "park.rs",
        "a G whose park is called off is not readied",
        "        if !commit(pinned, me) {
            ready_pinned(pinned, me);
        }",
        "        commit(pinned, me);",
        Simulation("simulation", "trees", 300),
    ),
    mutant(
        "find.rs",
        "a batch from the global queue loses Gs",
        "        processor.queue.push_back(goroutine).expect(\"an empty ring has room for half of its capacity\");",
        "        let _ = goroutine;",
        Simulation("simulation", "hogs", 300),
    ),
    mutant(
        "syscall.rs",
        "the interrupt for a timer that came during a system call is not made up for",
        "    if P::TIMER_INTERRUPTS && earliest != Instant::NEVER {
        P::arm_timer(pinned, processor, earliest);
    }
    true",
        "    let _ = earliest;
    true",
        Simulation("simulation", "a_system_call_does_not", 300),
    ),
    mutant(
        "kthread/sleepers.rs",
        "a thread that sleeps anew may be taken off by what woke it last",
        "        C::without_interrupts(|| self.cpus[cpu].sleepers.lock().remove(thread));",
        "        let _ = (cpu, thread);",
        Simulation("simulation", "trees", 300),
    ),
];
