//! The protocols together: what one of them leaves to another.

use super::Catcher::Simulation;
use super::{Mutant, mutant};

/// The programs of `tests/composition.rs` take no seeds.
const ONE: u32 = 1;

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "engine/syscall.rs",
        "an M that comes back to an idle P stays counted as blocked",
        "        let processor = self.take_idle_processor_preferring(&mut shared, old)?;
        shared.blocked_machines -= 1;",
        "        let processor = self.take_idle_processor_preferring(&mut shared, old)?;",
        Simulation("composition", "handing_off_while_others_submit", ONE),
    ),
    mutant(
        "engine/stop_the_world.rs",
        "an M that gives its P up for a stop is not put on the idle list",
        "        self.stopped_processor.store(Some(processor), Ordering::Relaxed);
        scheduler.put_idle_machine(&mut shared, self);",
        "        self.stopped_processor.store(Some(processor), Ordering::Relaxed);",
        Simulation("composition", "stopping_and_starting_the_world", ONE),
    ),
    mutant(
        "engine/stop_the_world.rs",
        "an M that gives its P up for a stop stays counted as spinning",
        "        if self.spinning.swap(false, Ordering::Relaxed) {
            scheduler.spinning.fetch_sub(1, Ordering::SeqCst);
        }
        scheduler.stop_processor",
        "        scheduler.stop_processor",
        Simulation("composition", "stopping_and_starting_the_world", ONE),
    ),
    mutant(
        "engine/procs.rs",
        "a P that comes into use is not started along with the world",
        "            processor.status.set(ProcessorStatus::Stopped);
        }
        scheduler.set_procs",
        "            let _ = processor;
        }
        scheduler.set_procs",
        Simulation("composition", "changing_the_number_of_processors", ONE),
    ),
    mutant(
        "engine/procs.rs",
        "what was runnable on a P that goes out of use is forgotten",
        "        self.put_global_first(shared, &mut goroutines);",
        "",
        Simulation("composition", "changing_the_number_of_processors", ONE),
    ),
    mutant(
        "engine/procs.rs",
        "an M in a system call whose P goes out of use is not counted as blocked",
        "        shared.forget_caller(processor);
        processor.status.set(ProcessorStatus::Dead);",
        "        processor.status.set(ProcessorStatus::Dead);",
        Simulation("composition", "changing_the_number_of_processors", ONE),
    ),
    mutant(
        "engine/stop_the_world.rs",
        "a P that was stopped in a system call stays stopped",
        "                    ProcessorStatus::StoppedInSyscall => processor.status.set(ProcessorStatus::Syscall),",
        "                    ProcessorStatus::StoppedInSyscall => {}",
        Simulation("composition", "stopping_and_starting_the_world", ONE),
    ),
    mutant(
        "engine/stop_the_world.rs",
        "a P with work is put on the idle list when the world starts",
        "                    ProcessorStatus::Stopped if processor.has_work() => {",
        "                    ProcessorStatus::Stopped if false => {",
        Simulation("composition", "stopping_and_starting_the_world", ONE),
    ),
];
