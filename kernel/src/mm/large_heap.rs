//! The large heap: first fit in one [`linked_list_allocator::Heap`], which grows by mapping frames at its end and keeps what it has.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use linked_list_allocator::Heap;

use super::address::{HEAP, PAGE_SIZE, VirtAddr, WINDOW_BYTES};
use super::error::OutOfMemory;
use super::{paging, pressure};
use crate::cpu::sync::PreemptMutex;

/// The heap grows by this at least: short enough to map with preemption off.
const STEP_PAGES: usize = 64;
const STEP_BYTES: usize = STEP_PAGES * PAGE_SIZE;

static LARGE: PreemptMutex<LargeHeap> = PreemptMutex::new(LargeHeap(Heap::empty()));

/// Memory for spans of small objects, and for everything larger.
struct LargeHeap(Heap);

impl LargeHeap {
    /// How many bytes after the end of the heap an allocation with a large alignment would skip.
    ///
    /// # Errors
    /// If the allocation would not fit into the window.
    fn skipped_for(&self, layout: Layout) -> Result<usize, OutOfMemory> {
        let end = self.end() as usize;
        // Neither of these overflows: `refuse_wrapping` has checked them with the end of the window.
        let start = end.next_multiple_of(layout.align());
        let is_in_window = (start + layout.size()) as u64 <= HEAP + WINDOW_BYTES;
        is_in_window.then_some((start - end) / STEP_BYTES * STEP_BYTES).ok_or(OutOfMemory)
    }

    fn end(&self) -> u64 {
        if self.0.size() == 0 { HEAP } else { self.0.top().addr() as u64 }
    }

    /// Adds one step of memory at the end.
    fn grow(&mut self) -> Result<(), OutOfMemory> {
        let end = self.end();
        if end + STEP_BYTES as u64 > HEAP + WINDOW_BYTES {
            return Err(OutOfMemory);
        }
        let pages = STEP_PAGES;
        paging::commit(VirtAddr::new(end), pages)?;
        if self.0.size() == 0 {
            let bottom = ptr::with_exposed_provenance_mut(HEAP as usize);
            // SAFETY: the range was just mapped and nothing else uses this window.
            unsafe { self.0.init(bottom, pages * PAGE_SIZE) };
        } else {
            // SAFETY: as above, and adjacent to the end of the heap.
            unsafe { self.0.extend(pages * PAGE_SIZE) };
        }
        Ok(())
    }
}

/// Refuses an alignment so large that the next aligned address after the window is beyond the end of memory: the arithmetic of
/// `linked_list_allocator` wraps around there, and it would write outside of the heap.
fn refuse_wrapping(layout: Layout) -> Result<(), OutOfMemory> {
    let window_end = (HEAP + WINDOW_BYTES) as usize;
    let aligned = window_end.checked_next_multiple_of(layout.align());
    aligned.and_then(|aligned| aligned.checked_add(layout.size())).map(drop).ok_or(OutOfMemory)
}

/// Allocates from the large heap. Grows it in steps, between which preemption is on.
#[inline(never)]
pub(super) fn allocate_large(layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
    refuse_wrapping(layout)?;
    loop {
        let wanted = {
            let mut large = LARGE.lock();
            if let Ok(memory) = large.0.allocate_first_fit(layout) {
                return Ok(memory);
            }
            let skipped = large.skipped_for(layout)?;
            (layout.size() / PAGE_SIZE).saturating_sub(large.0.free() / PAGE_SIZE) + skipped / PAGE_SIZE
        };
        // A request that cannot succeed fails before the heap takes all memory for it.
        if pressure::frames_within_reach(wanted) < wanted {
            return Err(OutOfMemory);
        }
        let grown = LARGE.lock().grow();
        if grown.is_err() && pressure::relieve(STEP_PAGES) == 0 {
            return Err(OutOfMemory);
        }
    }
}

/// Bytes of the heap.
pub(super) fn bytes() -> usize {
    LARGE.lock().0.size()
}

/// Frees memory of the large heap.
///
/// # Safety
/// It must have come from [`allocate_large`] with the same layout and not be in use.
#[inline(never)]
pub(super) unsafe fn free_large(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe { LARGE.lock().0.deallocate(memory, layout) }
}
