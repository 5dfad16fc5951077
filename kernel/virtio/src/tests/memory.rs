//! The memory that the driver under test shares with its devices.

#![expect(unsafe_code, reason = "the memory is that of a fake device")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use crate::{Dma, PAGE_SIZE};

/// The memory that is shared with devices. Each test runs on a thread of its own and has its own shared memory. A
/// physical address is the same as the virtual address.
#[derive(Debug)]
pub(super) struct Memory;

/// Consecutive pages that were allocated together. The page before them and the page after them are filled with
/// [`MARK`].
struct Block {
    start: NonNull<u8>,
    pages: usize,
}

const MARK: u8 = 0x5a;

thread_local! {
    static BLOCKS: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
    /// The least number of pages for which an allocation fails. The kernel has no blocks of more than 1,024 pages.
    static FAIL_FROM: Cell<usize> = const { Cell::new(1025) };
}

impl Block {
    fn layout(&self) -> Layout {
        Layout::from_size_align((self.pages + 2) * PAGE_SIZE, PAGE_SIZE).expect("not too large")
    }

    fn surroundings(&mut self) -> [&mut [u8]; 2] {
        let before = self.start.as_ptr().wrapping_sub(PAGE_SIZE);
        let after = self.start.as_ptr().wrapping_add(self.pages * PAGE_SIZE);
        // SAFETY: the allocation contains one page before the block's pages and one page after them. Only tests access
        // these two pages.
        [before, after].map(|page| unsafe { std::slice::from_raw_parts_mut(page, PAGE_SIZE) })
    }
}

impl Memory {
    pub(super) fn fail_from(pages: usize) {
        FAIL_FROM.set(pages);
    }

    /// Returns the number of pages that are allocated.
    pub(super) fn pages() -> usize {
        BLOCKS.with_borrow(|blocks| blocks.iter().map(|block| block.pages).sum())
    }

    /// Checks that nothing was written next to the shared memory.
    pub(super) fn check_surroundings() {
        BLOCKS.with_borrow_mut(|blocks| {
            for block in blocks {
                assert!(block.surroundings().iter().all(|page| page.iter().all(|&byte| byte == MARK)));
            }
        });
    }

    /// Frees all memory. Drivers do not access their memory when they are dropped.
    pub(super) fn free_all() {
        BLOCKS.with_borrow_mut(|blocks| {
            for block in blocks.drain(..) {
                // SAFETY: the block was allocated with this layout, and no driver uses it any more.
                unsafe { dealloc(block.start.as_ptr().wrapping_sub(PAGE_SIZE), block.layout()) };
            }
        });
    }

    /// Returns a pointer to the `bytes` bytes at `address` if all of them are in one block of the shared memory.
    pub(super) fn shared(address: u64, bytes: usize) -> Option<*mut u8> {
        BLOCKS.with_borrow(|blocks| {
            blocks.iter().find_map(|block| {
                let offset = usize::try_from(address).ok()?.checked_sub(block.start.as_ptr().addr())?;
                let is_within = offset.checked_add(bytes)? <= block.pages * PAGE_SIZE;
                is_within.then(|| block.start.as_ptr().wrapping_add(offset))
            })
        })
    }

    /// Writes random bytes to random shared memory. Half of the writes go to small blocks, such as those of the queues.
    pub(super) fn scribble(random: &mut fastrand::Rng, writes: usize) {
        BLOCKS.with_borrow(|blocks| {
            for _ in 0..writes {
                let small = random.bool();
                let of_size = |block: &&Block| (block.pages <= 4) == small;
                let candidates: Vec<_> = blocks.iter().filter(of_size).collect();
                let Some(block) = random.choice(&candidates) else { continue };
                let at = block.start.as_ptr().wrapping_add(random.usize(..block.pages * PAGE_SIZE));
                // SAFETY: the address is within the block.
                unsafe { at.write_volatile(random.u8(..)) };
            }
        });
    }
}

// SAFETY: the memory is aligned to pages, filled with zeros, and allocated once. It stays allocated until the end of
// the test, or until the driver frees it.
unsafe impl Dma for Memory {
    fn allocate(pages: usize) -> Option<(NonNull<u8>, u64)> {
        if pages >= FAIL_FROM.get() {
            return None;
        }
        let mut block = Block { start: NonNull::dangling(), pages };
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(block.layout()) }).expect("memory");
        // SAFETY: the allocation has a page before the block.
        block.start = unsafe { start.add(PAGE_SIZE) };
        block.surroundings().into_iter().for_each(|page| page.fill(MARK));
        let start = block.start;
        BLOCKS.with_borrow_mut(|blocks| blocks.push(block));
        Some((start, start.as_ptr().addr() as u64))
    }

    unsafe fn free(start: NonNull<u8>, pages: usize) {
        BLOCKS.with_borrow_mut(|blocks| {
            let index = blocks.iter().position(|block| block.start == start && block.pages == pages);
            let block = blocks.swap_remove(index.expect("only what was allocated is freed"));
            // SAFETY: the block was allocated with this layout, and the caller promises that it is not in use.
            unsafe { dealloc(block.start.as_ptr().wrapping_sub(PAGE_SIZE), block.layout()) };
        });
    }

    fn at(address: u64, bytes: usize) -> Option<NonNull<u8>> {
        Self::shared(address, bytes).and_then(NonNull::new)
    }
}
