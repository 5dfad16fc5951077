//! Enlarges the TLB of an emulated CPU.
//!
//! If QEMU emulates the processor, it keeps a table for each CPU with the translations that this CPU has used: the
//! emulated TLB. If a translation is not in the table, QEMU walks the page tables. At first the table has 256 entries.
//! It is doubled only when the CPU flushes its whole TLB, and only if more than 70 % of its entries are in use then
//! (`tlb_mmu_resize_locked` in QEMU's `accel/tcg/cputlb.c`).
//!
//! An operating system with processes flushes often, so its table soon has the size that it needs. This kernel has a
//! single address space and hardly ever flushes. Its table would stay small, although each stack of a G needs an entry.
//! So each CPU uses all entries and flushes, again and again until the table is large. That takes a millisecond. With
//! two CPUs, a hop of `ring_1000` took 240 ns with the large table, and 360 ns without it.
//!
//! To use an entry, the CPU reads from one page. All these pages are mapped to the same frame, because only their
//! addresses matter.

use spin::Once;
use x86_64::instructions::tlb;

use super::address::{PAGE_SIZE, VirtAddr};
use super::{frame, paging};

/// How many entries the table has afterwards. With twice as many, no workload of `bench` was faster by more than the
/// noise, and a flush takes twice as long.
const ENTRIES: usize = 8192;
/// How many entries QEMU's table has at first (`CPU_TLB_DYN_DEFAULT_BITS`).
const FIRST_ENTRIES: usize = 256;
/// The page tables for the pages may take at most this part of the free memory: one sixteenth.
const MEMORY_SHARE: usize = 16;

/// The first of the pages. Not set if the processor is not emulated, or if there is too little memory.
static PAGES: Once<VirtAddr> = Once::new();

/// Maps the pages that [`enlarge`] reads, if there is memory for them. Called once, if QEMU emulates the processor,
/// when the kernel's own page tables are in use.
pub(crate) fn init() {
    const PAGES_PER_TABLE: usize = 512;
    let frames = ENTRIES / 2 / PAGES_PER_TABLE;
    if frames * MEMORY_SHARE <= frame::free_frames() {
        let Ok(page) = frame::allocate() else { return };
        // If this fails, the frame is not freed, because some of the pages may already be mapped to it.
        if let Ok(pages) = paging::map_repeatedly(page, ENTRIES / 2) {
            PAGES.call_once(|| pages);
        }
    }
}

/// Enlarges the emulated TLB of this CPU, if it has one and [`init`] has been called. Called once by each CPU, with
/// interrupts off.
pub(crate) fn enlarge() {
    let Some(pages) = PAGES.get() else { return };
    let mut entries = FIRST_ENTRIES;
    while entries < ENTRIES {
        // An entry is chosen by the lower bits of the page's number, so consecutive pages use different entries.
        for page in 0..entries {
            let byte = pages.as_ptr::<u8>().wrapping_add(page * PAGE_SIZE);
            // SAFETY: `init` has mapped at least this number of pages, which nothing else uses.
            unsafe { byte.read_volatile() };
        }
        tlb::flush_all();
        entries *= 2;
    }
}
