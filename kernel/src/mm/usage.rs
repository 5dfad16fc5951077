//! What the memory is used for. The machine and the host share this type.

/// The use of memory at one moment. All values are in bytes, except the two numbers of stacks.
///
/// The parts are counted one after the other while all CPUs continue, so they may not add up exactly. The rest of the
/// memory contains page tables, the tables of the frame allocator, buffers of devices and of connections, and each
/// CPU's reserve of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// The usable memory that the kernel has taken over.
    pub total: usize,
    /// The memory of free frames.
    pub free: usize,
    /// The memory of the heap, both allocated and free.
    pub heap: usize,
    /// The number of stacks in use, including those of CPUs, trap handlers and kernel threads.
    pub stacks_in_use: usize,
    /// The number of stacks that are not in use, but are kept with their memory for the next Gs.
    pub stacks_cached: usize,
    /// The sizes of the stacks in use and of the cached stacks, added up. This counts address space, without guard
    /// pages and without the room for preemption below each G's stack.
    pub stacks_reserved: usize,
    /// The memory of the stacks in use and of the cached stacks: the touched pages of Gs' stacks, and all pages of the
    /// other stacks.
    pub stacks_committed: usize,
}
