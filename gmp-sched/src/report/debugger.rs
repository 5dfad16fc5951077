//! Offsets of fields in G, M, P and the scheduler, for a debugger script that has no type information.

use core::mem::offset_of;

use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

/// Offsets in bytes, in the order in which the debugger script reads them. A platform stores a `Layout` in a `static`
/// whose name the script knows.
#[derive(Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "names of the fields that they are the offsets of")]
pub struct Layout {
    pub scheduler_goroutines: usize,
    pub scheduler_machines: usize,
    pub goroutine_next: usize,
    pub goroutine_id: usize,
    pub goroutine_status: usize,
    pub goroutine_wait_reason: usize,
    pub goroutine_creator: usize,
    pub goroutine_context: usize,
    pub goroutine_stack_top: usize,
    pub goroutine_stack_bytes: usize,
    pub machine_next: usize,
    pub machine_id: usize,
    pub machine_current: usize,
    pub machine_processor: usize,
    pub processor_id: usize,
    pub processor_status: usize,
    pub processor_tick: usize,
    /// Not an offset: the text of each wait reason. The script relies on a slice being an address and a length. The
    /// language does not guarantee that, but a test of the script would detect a change.
    pub wait_reasons: &'static [&'static str],
}

impl Layout {
    /// The layout of a scheduler on platform `Plat`.
    #[must_use]
    pub const fn of<Plat: Platform>() -> Self {
        Self {
            scheduler_goroutines: Scheduler::<Plat>::GOROUTINES,
            scheduler_machines: Scheduler::<Plat>::MACHINES,
            goroutine_next: offset_of!(Goroutine<Plat>, all_link),
            goroutine_id: Goroutine::<Plat>::ID,
            goroutine_status: Goroutine::<Plat>::STATUS,
            goroutine_wait_reason: Goroutine::<Plat>::WAIT_REASON,
            goroutine_creator: Goroutine::<Plat>::CREATOR,
            goroutine_context: offset_of!(Goroutine<Plat>, context),
            goroutine_stack_top: Goroutine::<Plat>::STACK_TOP,
            goroutine_stack_bytes: Goroutine::<Plat>::STACK_BYTES,
            machine_next: offset_of!(Machine<Plat>, all_link),
            machine_id: Machine::<Plat>::ID,
            machine_current: Machine::<Plat>::CURRENT,
            machine_processor: Machine::<Plat>::PROCESSOR,
            processor_id: Processor::<Plat>::ID,
            processor_status: offset_of!(Processor<Plat>, status),
            processor_tick: Processor::<Plat>::TICK,
            wait_reasons: WaitReason::WORDS,
        }
    }
}
