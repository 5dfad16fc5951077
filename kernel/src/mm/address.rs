//! The map of the address space.
//!
//! All CPUs share one address space. Its lower half is not mapped, so that an access through an invalid pointer with a
//! small value causes a page fault. Each line of this table is a *window* of addresses:
//!
//! | from | what | pages |
//! |---|---|---|
//! | `0xffff_8000_0000_0000` | all physical memory (`PHYSICAL_OFFSET`) | 2 MiB, not executable |
//! | `0xffff_c000_0000_0000` | registers and memory of devices, and firmware tables in memory that is not mapped otherwise (`paging`) | 4 KiB, uncached; also the pages of `emulated_tlb`, which are cached |
//! | `0xffff_d000_0000_0000` | stacks with guard pages (`stack`) | 4 KiB; most get a frame when they are first touched |
//! | `0xffff_d800_0000_0000` | the buffers of connections (`sparse`) | 4 KiB; they get frames when they are used |
//! | `0xffff_e000_0000_0000` | the heap: 512 GiB for each level of page runs, and then the tables of these levels (`page_runs`) | 4 KiB |
//! | `0xffff_f000_0000_0000` | what the rust-osdev bootloader has mapped: its stack, the boot information, the framebuffer, the command line (`boot::bootloader`) | 4 KiB |
//! | `0xffff_ffff_8000_0000` | the kernel's image | 4 KiB; code and constants are read-only, only code is executable |

use kernel_heap::runs::LEVELS;

pub(crate) use x86_64::{PhysAddr, VirtAddr};

/// The size of a page and of a frame, in bytes.
pub(crate) const PAGE_SIZE: usize = 4096;

/// The virtual address of physical address 0. All physical memory is mapped from this address on.
pub(crate) const PHYSICAL_OFFSET: u64 = 0xffff_8000_0000_0000;

/// The size of the window for physical memory, in bytes. The window ends where the window for devices begins. Memory
/// whose physical address is not below this number is not used.
pub(crate) const PHYSICAL_MAP_BYTES: u64 = 1 << 46;

/// The beginning of the window in which registers and memory of devices are mapped.
pub(super) const DEVICES: u64 = 0xffff_c000_0000_0000;
/// The beginning of the window with the slots of stacks.
pub(super) const STACKS: u64 = 0xffff_d000_0000_0000;
/// The size of the window for stacks, in bytes.
pub(super) const STACKS_BYTES: u64 = 9 * ENTRY_BYTES;
/// The beginning of the window for ranges whose pages have frames only while they are used.
pub(super) const SPARSE: u64 = 0xffff_d800_0000_0000;
/// The beginning of the windows of the heap.
pub(super) const HEAP: u64 = 0xffff_e000_0000_0000;
/// The size of the windows of the heap: one for the page runs of each level, and one for the tables of all levels.
pub(super) const HEAP_BYTES: u64 = (LEVELS as u64 + 1) * WINDOW_BYTES;
/// The size of the windows for devices and for sparse ranges, and of each window of the heap, in bytes.
pub(super) const WINDOW_BYTES: u64 = ENTRY_BYTES;
/// How many bytes one entry of the top-level page table maps.
pub(super) const ENTRY_BYTES: u64 = 1 << 39;

/// Returns the virtual address of a physical address, which must be below [`PHYSICAL_MAP_BYTES`]. The result is mapped
/// only if the memory map has memory at that physical address, which this function does not check.
#[inline]
pub(crate) const fn physical_to_virtual(physical: PhysAddr) -> VirtAddr {
    debug_assert!(physical.as_u64() < PHYSICAL_MAP_BYTES);
    VirtAddr::new_truncate(physical.as_u64() + PHYSICAL_OFFSET)
}
