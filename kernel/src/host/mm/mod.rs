//! Memory. On the host, the operating system manages it, so the kernel counts nothing.

use crate::host::note::Note;

pub use self::error::OutOfMemory;

#[path = "../../mm/error.rs"]
mod error;

/// The use of the machine's memory at one moment, in bytes unless noted otherwise. All zeros on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Memory that the kernel manages.
    pub total: usize,
    /// Memory in free frames.
    pub free: usize,
    /// Memory of the heap, allocated or not.
    pub heap: usize,
    /// Number of stacks in use, including those of CPUs, interrupts and kernel threads.
    pub stacks_in_use: usize,
    /// Number of stacks that are cached for the next Gs, together with their memory.
    pub stacks_cached: usize,
    /// Reserved address space of the stacks that are in use or cached.
    pub stacks_reserved: usize,
    /// Committed memory of these stacks: the part that has been touched.
    pub stacks_committed: usize,
}

/// Returns how the memory of the machine is used. On the host, all numbers are zero. Does not block.
#[must_use]
pub fn usage() -> Usage {
    static NOTE: Note =
        Note::new("the memory of a machine cannot be counted on the host: kernel::mm::usage is all zeros");
    NOTE.say();
    Usage { total: 0, free: 0, heap: 0, stacks_in_use: 0, stacks_cached: 0, stacks_reserved: 0, stacks_committed: 0 }
}

/// Frees the cached stacks of dead Gs on the machine. On the host, the operating system manages the memory, so this
/// function frees nothing and returns 0. Does not block.
pub fn free_cached_memory() -> usize {
    0
}
