//! What the memory is used for.

use super::address::PAGE_SIZE;
use super::{frame, large_heap, pressure, stack};

/// The use of memory at one moment, in bytes unless noted otherwise.
///
/// The parts are counted one after the other while all CPUs continue, so they may not add up exactly. The rest, which is
/// neither free, nor heap, nor committed for stacks, is page tables, memory of devices, and small objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Memory that the kernel has taken over.
    pub total: usize,
    /// Memory in free frames.
    pub free: usize,
    /// Memory of the heap, whether or not it is allocated.
    pub heap: usize,
    /// Number of stacks in use, including those of CPUs, interrupts and kernel threads.
    pub stacks_in_use: usize,
    /// Number of stacks that are cached with their memory for the next Gs.
    pub stacks_cached: usize,
    /// Reserved size of the stacks in use and cached.
    pub stacks_reserved: usize,
    /// Committed memory of these stacks: the part that has been touched.
    pub stacks_committed: usize,
}

/// Counts the memory. Does not block; not callable from interrupts.
#[must_use]
pub fn usage() -> Usage {
    let stacks = stack::figures();
    let kept_by_goroutines = pressure::cached_stacks();
    Usage {
        total: frame::total_frames() * PAGE_SIZE,
        free: frame::free_frames() * PAGE_SIZE,
        heap: large_heap::bytes(),
        stacks_in_use: stacks.in_use.saturating_sub(kept_by_goroutines),
        stacks_cached: stacks.free + kept_by_goroutines,
        stacks_reserved: stacks.reserved_bytes,
        stacks_committed: stacks.committed_bytes,
    }
}
