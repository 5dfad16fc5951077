//! What the memory is used for.

use super::{PAGE_SIZE, frame, heap, stack};
use crate::sched::platform;

/// What the memory of the machine is used for at one moment, in bytes where nothing else is said.
///
/// The parts are counted one after the other while the machine runs on, so they need not fit together exactly. What is
/// neither free, nor heap, nor committed for stacks, is page tables, memory of devices, and small change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Memory that the kernel has taken over.
    pub total: usize,
    /// Memory in free frames.
    pub free: usize,
    /// Memory of the heap, whether or not it is allocated.
    pub heap: usize,
    /// Stacks in use, those of CPUs, interrupts and kernel threads included: a number.
    pub stacks_in_use: usize,
    /// Stacks that are kept with their memory for the next Gs: a number.
    pub stacks_cached: usize,
    /// What stacks in use and kept may grow to.
    pub stacks_reserved: usize,
    /// Memory behind those: what has been touched of them.
    pub stacks_committed: usize,
}

/// Counts the memory. Does not block; not callable from interrupts.
#[must_use]
pub fn usage() -> Usage {
    let stacks = stack::figures();
    let kept_by_goroutines = platform::cached_stacks();
    Usage {
        total: frame::total_frames() * PAGE_SIZE,
        free: frame::free_frames() * PAGE_SIZE,
        heap: heap::bytes(),
        stacks_in_use: stacks.in_use.saturating_sub(kept_by_goroutines),
        stacks_cached: stacks.free + kept_by_goroutines,
        stacks_reserved: stacks.reserved_bytes,
        stacks_committed: stacks.committed_bytes,
    }
}
