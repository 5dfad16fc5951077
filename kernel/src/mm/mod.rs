//! Memory management: frames, page tables, TLB flushes, stacks, the heap, the buffers of connections, and the memory that
//! devices may access.
//!
//! The map of the address space is in `address`.

mod address;
mod buddies;
pub(crate) mod dma;
pub(crate) mod emulated_tlb;
mod error;
mod former_use;
pub(crate) mod frame;
pub(crate) mod heap;
pub(crate) mod layout;
pub(crate) mod object_cache;
mod page_runs;
pub(crate) mod paging;
mod pressure;
pub(crate) mod refusal;
pub(crate) mod shared_lock;
pub(crate) mod sparse;
pub(crate) mod stack;
mod statistics;
pub(crate) mod tlb;
mod usage;

use bootloader_api::info::MemoryRegion;
#[doc(hidden)]
pub use pressure::free_cached_memory;
pub(crate) use pressure::{StackCache, make_room, scavenge, set_stack_cache};
pub use statistics::usage;
pub use usage::Usage;

pub(crate) use address::{PAGE_SIZE, PHYSICAL_MAP_BYTES, PHYSICAL_OFFSET, PhysAddr, VirtAddr, physical_to_virtual};
pub use error::OutOfMemory;
pub(crate) use former_use::FormerUse;

/// Sets up memory management: first the frames below 4 GiB, then the kernel's own page tables. The frames above 4 GiB
/// come last, because only the kernel's own page tables map them.
pub(crate) fn init(regions: &[MemoryRegion], former_use: FormerUse) {
    frame::init(regions, former_use);
    paging::init(regions);
    frame::add_high_memory(regions);
}
