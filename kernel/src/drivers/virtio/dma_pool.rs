//! The DMA pool, as the drivers and the disks in memory use it.

use core::ptr::NonNull;

use kernel_virtio::Dma;

use crate::mm::{PhysAddr, dma};

/// The DMA pool.
#[derive(Debug)]
pub(crate) struct DmaPool;

// SAFETY: the pages that the pool allocates are consecutive and filled with zeros, and nothing else uses them until
// they are freed. They are mapped for ever.
unsafe impl Dma for DmaPool {
    fn allocate(pages: usize) -> Option<(NonNull<u8>, u64)> {
        let start = dma::allocate(pages).ok()?;
        let address = dma::device_address(NonNull::slice_from_raw_parts(start, 1))?;
        Some((start, address.as_u64()))
    }

    unsafe fn free(start: NonNull<u8>, pages: usize) {
        // SAFETY: the caller promises that the memory came from `allocate`, and that the device does not use it any
        // more.
        unsafe { dma::free(start, pages) };
    }

    fn at(address: u64, bytes: usize) -> Option<NonNull<u8>> {
        dma::of_device(PhysAddr::try_new(address).ok()?, bytes)
    }
}
