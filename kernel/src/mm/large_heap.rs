//! The large heap, which is one [`linked_list_allocator::Heap`] with first-fit allocation. It grows by mapping frames
//! at its end, and never shrinks.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use linked_list_allocator::Heap;

use super::address::{HEAP, PAGE_SIZE, VirtAddr, WINDOW_BYTES};
use super::error::OutOfMemory;
use super::{paging, pressure};
use crate::cpu::sync::PreemptMutex;

/// The heap grows by this many pages at a time. The number is small, because the pages are mapped with preemption off.
const STEP_PAGES: usize = 64;
const STEP_BYTES: usize = STEP_PAGES * PAGE_SIZE;

static LARGE: PreemptMutex<LargeHeap> = PreemptMutex::new(LargeHeap(Heap::empty()));

/// The memory for spans of small objects, and for all larger objects.
struct LargeHeap(Heap);

impl LargeHeap {
    /// An allocation of `layout` in new memory would begin at the first address, from the end of the heap on, that has
    /// the layout's alignment. Returns how many bytes above the end of the heap this address is, rounded down to a
    /// multiple of `STEP_BYTES`.
    ///
    /// # Errors
    /// If the allocation would end above the heap's window, which has `WINDOW_BYTES` bytes.
    fn skipped_for(&self, layout: Layout) -> Result<usize, OutOfMemory> {
        let end = self.end() as usize;
        // The next two lines cannot overflow. `refuse_wrapping` has made the same computation with the end of the
        // window, which is at or above the end of the heap, and has checked that it does not overflow.
        let start = end.next_multiple_of(layout.align());
        let is_in_window = (start + layout.size()) as u64 <= HEAP + WINDOW_BYTES;
        is_in_window.then_some((start - end) / STEP_BYTES * STEP_BYTES).ok_or(OutOfMemory)
    }

    fn end(&self) -> u64 {
        if self.0.size() == 0 { HEAP } else { self.0.top().addr() as u64 }
    }

    /// Maps one step of memory at the end of the heap, and adds it to the heap.
    fn grow(&mut self) -> Result<(), OutOfMemory> {
        let end = self.end();
        if end + STEP_BYTES as u64 > HEAP + WINDOW_BYTES {
            return Err(OutOfMemory);
        }
        let pages = STEP_PAGES;
        paging::commit(VirtAddr::new(end), pages)?;
        if self.0.size() == 0 {
            let bottom = ptr::with_exposed_provenance_mut(HEAP as usize);
            // SAFETY: the range was just mapped, and only this heap uses this window of the address space.
            unsafe { self.0.init(bottom, pages * PAGE_SIZE) };
        } else {
            // SAFETY: the range was just mapped, only this heap uses this window, and the range begins at the end of
            // the heap.
            unsafe { self.0.extend(pages * PAGE_SIZE) };
        }
        Ok(())
    }
}

/// Refuses a layout that is so large that the first aligned address after the window, plus the layout's size, exceeds
/// 64 bits. For such a layout the arithmetic of `linked_list_allocator` would wrap around, and the allocator would
/// write outside of the heap.
fn refuse_wrapping(layout: Layout) -> Result<(), OutOfMemory> {
    let window_end = (HEAP + WINDOW_BYTES) as usize;
    let aligned = window_end.checked_next_multiple_of(layout.align());
    aligned.and_then(|aligned| aligned.checked_add(layout.size())).map(drop).ok_or(OutOfMemory)
}

/// Allocates memory from the large heap. If necessary the heap grows step by step. Preemption is on between the steps.
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
        // A request that cannot succeed fails here, before the heap takes all free memory in vain.
        if pressure::frames_within_reach(wanted) < wanted {
            return Err(OutOfMemory);
        }
        let grown = LARGE.lock().grow();
        if grown.is_err() && pressure::relieve(STEP_PAGES) == 0 {
            return Err(OutOfMemory);
        }
    }
}

/// Returns the size of the large heap in bytes, with both its allocated and its free memory.
pub(super) fn bytes() -> usize {
    LARGE.lock().0.size()
}

/// Frees memory of the large heap.
///
/// # Safety
/// The memory must have come from [`allocate_large`] with the same layout, and must not be in use.
#[inline(never)]
pub(super) unsafe fn free_large(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller promises that the memory came from this heap with this layout, and is not in use.
    unsafe { LARGE.lock().0.deallocate(memory, layout) }
}
