//! Memory. On the host, the operating system manages it, so the kernel counts nothing.

use crate::host::note::Note;

pub use self::error::OutOfMemory;
pub use self::usage::Usage;

#[path = "../../mm/error.rs"]
mod error;
#[path = "../../mm/usage.rs"]
mod usage;

/// Returns how the memory of the machine is used. On the host, all numbers are zero. Does not block.
#[must_use]
pub fn usage() -> Usage {
    static NOTE: Note =
        Note::new("the memory of a machine cannot be counted on the host: kernel::mm::usage is all zeros");
    NOTE.say();
    Usage { total: 0, free: 0, heap: 0, stacks_in_use: 0, stacks_cached: 0, stacks_reserved: 0, stacks_committed: 0 }
}

/// Frees cached memory on the machine. On the host, the operating system manages the memory, so this
/// function frees nothing and returns 0. Does not block.
pub fn free_cached_memory() -> usize {
    0
}
