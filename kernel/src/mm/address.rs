//! The map of the address space.
//!
//! There is one address space, for all CPUs. The lower half is not mapped, so that small invalid pointers fault.
//!
//! | from | what | pages |
//! |---|---|---|
//! | `0xffff_8000_0000_0000` | all physical memory (`PHYSICAL_OFFSET`) | large, not executable |
//! | `0xffff_c000_0000_0000` | device registers (`paging`) | 4 KiB, uncached |
//! | `0xffff_d000_0000_0000` | stacks with guard pages (`stack`) | 4 KiB, most of them committed on first touch |
//! | `0xffff_e000_0000_0000` | the heap (`heap`) | 4 KiB |
//! | `0xffff_ffff_8000_0000` | the image: text read-only, the rest not executable | 4 KiB |

pub(crate) use x86_64::{PhysAddr, VirtAddr};

/// Bytes in a page and in a frame.
pub(crate) const PAGE_SIZE: usize = 4096;

/// Virtual address of physical address 0. All physical memory is mapped from there on.
pub(crate) const PHYSICAL_OFFSET: u64 = 0xffff_8000_0000_0000;

/// Bytes of that mapping, which ends where the other windows begin. Physical memory beyond it is not used.
pub(crate) const PHYSICAL_MAP_BYTES: u64 = 1 << 46;

/// Where device registers are mapped.
pub(super) const DEVICES: u64 = 0xffff_c000_0000_0000;
/// Where the slots of stacks are.
pub(super) const STACKS: u64 = 0xffff_d000_0000_0000;
/// Bytes of that window.
pub(super) const STACKS_BYTES: u64 = 9 * ENTRY_BYTES;
/// Where the heap grows.
pub(super) const HEAP: u64 = 0xffff_e000_0000_0000;
/// Bytes of that window, and of the window for devices.
pub(super) const WINDOW_BYTES: u64 = ENTRY_BYTES;
/// Bytes that one entry of the top table maps.
pub(super) const ENTRY_BYTES: u64 = 1 << 39;

/// The virtual address of a physical address, which must be within the mapping. It need not be mapped.
#[inline]
pub(crate) const fn physical_to_virtual(physical: PhysAddr) -> VirtAddr {
    debug_assert!(physical.as_u64() < PHYSICAL_MAP_BYTES);
    VirtAddr::new_truncate(physical.as_u64() + PHYSICAL_OFFSET)
}
