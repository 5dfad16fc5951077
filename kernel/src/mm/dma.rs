//! The DMA pool: the only memory that devices may access.
//!
//! A device may write to memory whose address it has at any time, also after its request was abandoned. So it never gets the
//! address of memory that Rust code uses otherwise: drivers copy ("bounce") between the caller's buffer and pages of this pool,
//! which stay allocated as long as the device may use them. So it is also safe to abandon a device.
//!
//! All functions may be called from everywhere and take leaf locks only.

use core::ptr::NonNull;

use x86_64::structures::paging::PhysFrame;

use super::address::{PAGE_SIZE, PhysAddr, VirtAddr, physical_to_virtual};
use super::error::OutOfMemory;
use super::frame;
use crate::cpu::sync::InterruptMutex;

/// Most blocks in the pool. A disk takes three.
const MAX_BLOCKS: usize = 128;

static POOL: InterruptMutex<heapless::Vec<Block, MAX_BLOCKS>> = InterruptMutex::new(heapless::Vec::new());

/// Pages that were allocated together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Block {
    first: PhysFrame,
    pages: usize,
}

impl Block {
    fn start(self) -> VirtAddr {
        physical_to_virtual(self.first.start_address())
    }

    fn contains(self, start: VirtAddr, bytes: usize) -> bool {
        let size = self.pages * PAGE_SIZE;
        let offset = start.as_u64().checked_sub(self.start().as_u64()).and_then(|offset| usize::try_from(offset).ok());
        offset.is_some_and(|offset| offset <= size && bytes <= size - offset)
    }
}

/// Allocates `pages` physically contiguous pages, filled with zeros.
///
/// # Errors
/// If there are none, or the pool is full.
pub(crate) fn allocate(pages: usize) -> Result<NonNull<u8>, OutOfMemory> {
    let block = Block { first: frame::allocate_contiguous(pages)?, pages };
    let start = block.start().as_mut_ptr::<u8>();
    // SAFETY: the frames were just allocated, and are mapped there.
    unsafe { start.write_bytes(0, pages * PAGE_SIZE) };
    if POOL.lock().push(block).is_err() {
        // SAFETY: allocated above and not in use.
        unsafe { frame::free_contiguous(block.first, pages) };
        return Err(OutOfMemory);
    }
    NonNull::new(start).ok_or(OutOfMemory)
}

/// Frees pages of [`allocate`].
///
/// # Safety
/// No device uses the pages any more, and nothing else does.
///
/// # Panics
/// If there is no such block in the pool.
pub(crate) unsafe fn free(start: NonNull<u8>, pages: usize) {
    let mut pool = POOL.lock();
    let index =
        pool.iter().position(|block| block.start() == VirtAddr::from_ptr(start.as_ptr()) && block.pages == pages);
    let block = pool.swap_remove(index.expect("only what came from the DMA pool is given back to it"));
    drop(pool);
    // SAFETY: it came from `allocate_contiguous`, is no longer in the pool, and by the caller's promise is not in use.
    unsafe { frame::free_contiguous(block.first, block.pages) };
}

/// The address that a device uses for memory of the pool; `None` for any other memory.
pub(crate) fn device_address(memory: NonNull<[u8]>) -> Option<PhysAddr> {
    let start = VirtAddr::from_ptr(memory.cast::<u8>().as_ptr());
    let pool = POOL.lock();
    let block = pool.iter().find(|block| block.contains(start, memory.len()))?;
    Some(block.first.start_address() + (start - block.start()))
}
