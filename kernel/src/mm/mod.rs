//! Memory: frames, page tables, stacks, heap.
//!
//! # Address space
//!
//! One for all CPUs and all programs. The lower half is not mapped, so that small invalid pointers fault.
//!
//! | from | what | pages |
//! |---|---|---|
//! | `0xffff_8000_0000_0000` | all physical memory (`PHYSICAL_OFFSET`) | large, not executable |
//! | `0xffff_c000_0000_0000` | device registers (`paging`) | 4 KiB, uncached |
//! | `0xffff_d000_0000_0000` | stacks with guard pages (`stack`) | 4 KiB, most of them committed on first touch |
//! | `0xffff_e000_0000_0000` | the heap (`heap`) | 4 KiB |
//! | `0xffff_ffff_8000_0000` | the image: text read-only, the rest not executable | 4 KiB |

pub(crate) mod dma;
pub(crate) mod frame;
pub(crate) mod heap;
pub(crate) mod layout;
pub(crate) mod object_cache;
pub(crate) mod paging;
mod pressure;
pub(crate) mod stack;
pub(crate) mod tlb;
mod usage;

use core::fmt;

use bootloader_api::info::MemoryRegion;
#[doc(hidden)]
pub use pressure::free_cached_memory;
pub(crate) use pressure::{StackCache, make_room, set_stack_cache};
pub use usage::{Usage, usage};
pub(crate) use x86_64::{PhysAddr, VirtAddr};

/// Bytes in a page and in a frame.
pub(crate) const PAGE_SIZE: usize = 4096;

/// Virtual address of physical address 0. The rest of memory is mapped behind it.
pub(crate) const PHYSICAL_OFFSET: u64 = 0xffff_8000_0000_0000;

/// Bytes of that mapping, which ends where the windows begin. Memory beyond is not used.
pub(crate) const PHYSICAL_MAP_BYTES: u64 = 1 << 46;

/// There is not enough memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl core::error::Error for OutOfMemory {}

/// The virtual address of a physical address within the mapping. There need not be memory at that address.
#[inline]
pub(crate) const fn physical_to_virtual(physical: PhysAddr) -> VirtAddr {
    debug_assert!(physical.as_u64() < PHYSICAL_MAP_BYTES);
    VirtAddr::new_truncate(physical.as_u64() + PHYSICAL_OFFSET)
}

/// Takes over the memory: some frames first, then the kernel's own page tables, then the memory that only these map.
pub(crate) fn init(regions: &[MemoryRegion]) {
    frame::init(regions);
    paging::init(regions);
    frame::add_high_memory(regions);
}
