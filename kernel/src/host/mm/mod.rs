//! Memory. The operating system of the host manages it, so nothing is counted here.

use crate::host::note::Note;

pub use self::error::OutOfMemory;

#[path = "../../mm/error.rs"]
mod error;

/// The use of the machine's memory at one moment, in bytes unless noted otherwise. All zeros on the host.
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

/// On the machine, returns how its memory is used; on the host, returns zeros. Does not block.
#[must_use]
pub fn usage() -> Usage {
    static NOTE: Note =
        Note::new("the memory of a machine cannot be counted on the host: kernel::mm::usage is all zeros");
    NOTE.say();
    Usage { total: 0, free: 0, heap: 0, stacks_in_use: 0, stacks_cached: 0, stacks_reserved: 0, stacks_committed: 0 }
}

/// On the machine, frees the stacks of dead Gs. On the host, whose operating system manages the memory, frees nothing and
/// returns 0. Does not block.
pub fn free_cached_memory() -> usize {
    0
}
