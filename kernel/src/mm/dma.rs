//! The DMA pool: the only memory that devices may access.
//!
//! Once a device has the address of a buffer, it may write there at any time, even after the driver has abandoned the
//! request. So a device never gets the address of memory that Rust code uses for anything else. A driver copies
//! ("bounces") data between the caller's buffer and pages of this pool. These pages stay allocated as long as the
//! device may use them. If a driver abandons a device, the driver never frees the pages that the device may still use.
//!
//! All functions may be called from everywhere except handlers of non-maskable interrupts. They take only leaf locks,
//! whose holders take no other lock.

use core::ptr::NonNull;

use x86_64::structures::paging::PhysFrame;

use super::address::{PAGE_SIZE, PhysAddr, VirtAddr, physical_to_virtual};
use super::error::OutOfMemory;
use super::frame;
use crate::cpu::sync::InterruptMutex;

/// The largest number of blocks of the pool. A disk needs about five blocks, plus one for each queue.
const MAX_BLOCKS: usize = 1024;

/// The blocks, in the order of their addresses.
static POOL: InterruptMutex<heapless::Vec<Block, MAX_BLOCKS>> = InterruptMutex::new(heapless::Vec::new());

/// Consecutive pages of the pool that were allocated together.
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
/// If there are not enough contiguous frames, or the pool has [`MAX_BLOCKS`] blocks already.
pub(crate) fn allocate(pages: usize) -> Result<NonNull<u8>, OutOfMemory> {
    let block = Block { first: frame::allocate_contiguous(pages)?, pages };
    let start = block.start().as_mut_ptr::<u8>();
    // SAFETY: the frames were just allocated and are not in use. All physical memory is mapped, so `start` is their
    // virtual address.
    unsafe { start.write_bytes(0, pages * PAGE_SIZE) };
    if !insert(block) {
        // SAFETY: the frames were allocated above, and their address was not passed to any device.
        unsafe { frame::free_contiguous(block.first, pages) };
        return Err(OutOfMemory);
    }
    NonNull::new(start).ok_or(OutOfMemory)
}

/// Adds a block to the pool. Returns `false` if the pool has [`MAX_BLOCKS`] blocks already.
fn insert(block: Block) -> bool {
    let mut pool = POOL.lock();
    let index = pool.partition_point(|other| other.first < block.first);
    pool.insert(index, block).is_ok()
}

/// Frees pages that [`allocate`] has returned.
///
/// # Safety
/// No device and no code may use the pages any more.
///
/// # Panics
/// If the pool has no block with this `start` and this number of `pages`.
pub(crate) unsafe fn free(start: NonNull<u8>, pages: usize) {
    let mut pool = POOL.lock();
    let index = pool.binary_search_by_key(&VirtAddr::from_ptr(start.as_ptr()), |block| block.start()).ok();
    let index = index.filter(|&index| pool[index].pages == pages);
    let block = pool.remove(index.expect("only what came from the DMA pool is given back to it"));
    drop(pool);
    // SAFETY: every block in the pool came from `allocate_contiguous`. This block is no longer in the pool, so it is
    // freed only once. The caller promises that the block is not in use.
    unsafe { frame::free_contiguous(block.first, block.pages) };
}

/// Returns the physical address of `memory` if that memory is in the pool, and `None` for any other memory. A device
/// must access the memory by this physical address.
pub(crate) fn device_address(memory: NonNull<[u8]>) -> Option<PhysAddr> {
    let start = VirtAddr::from_ptr(memory.cast::<u8>().as_ptr());
    let pool = POOL.lock();
    let after = pool.partition_point(|block| block.start() <= start);
    let block = pool.get(after.checked_sub(1)?).filter(|block| block.contains(start, memory.len()))?;
    Some(block.first.start_address() + (start - block.start()))
}

/// Returns the virtual address of the `bytes` bytes at the physical address `address`, if these bytes are in the pool.
/// Devices that the kernel itself implements use this function to access the memory of requests.
pub(crate) fn of_device(address: PhysAddr, bytes: usize) -> Option<NonNull<u8>> {
    let start = physical_to_virtual(address);
    let pool = POOL.lock();
    let after = pool.partition_point(|block| block.start() <= start);
    pool.get(after.checked_sub(1)?).filter(|block| block.contains(start, bytes))?;
    NonNull::new(start.as_mut_ptr())
}
