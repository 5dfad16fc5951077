//! What the crate virtio-drivers requires of its environment: memory for devices, and mapped registers.

use core::ptr::NonNull;

use kernel_virtio_block::software::SharedMemory;
use virtio_drivers::{BufferDirection, Hal, PhysAddr as DeviceAddress};

use crate::drivers::pci;
use crate::mm::{PhysAddr, dma};

/// The DMA pool, as the allocator for virtio-drivers.
#[derive(Debug)]
pub(crate) struct DmaPool;

// SAFETY: the pages that the pool allocates are aligned and filled with zeros, and nothing else uses them until they
// are freed. Registers stay mapped, and only one driver uses each register.
unsafe impl Hal for DmaPool {
    /// If no memory is free, returns the address 0. virtio-drivers then reports an error.
    fn dma_alloc(pages: usize, _: BufferDirection) -> (DeviceAddress, NonNull<u8>) {
        let start = dma::allocate(pages).ok();
        let address = start.and_then(|start| dma::device_address(NonNull::slice_from_raw_parts(start, 1)));
        (address.map_or(0, PhysAddr::as_u64), start.unwrap_or(NonNull::dangling()))
    }

    unsafe fn dma_dealloc(_: DeviceAddress, start: NonNull<u8>, pages: usize) -> i32 {
        // SAFETY: the caller promises that the memory came from `dma_alloc`, and that the device does not use it any
        // more.
        unsafe { dma::free(start, pages) };
        0
    }

    unsafe fn mmio_phys_to_virt(address: DeviceAddress, bytes: usize) -> NonNull<u8> {
        let registers = pci::mapped(PhysAddr::new_truncate(address), bytes);
        registers.expect("a device's BARs are mapped before its driver starts").start()
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> DeviceAddress {
        let address = dma::device_address(buffer);
        address.expect("only memory of the DMA pool is shared with devices").as_u64()
    }

    /// Does nothing: the memory stays in the pool, and the caller copies the data from it.
    unsafe fn unshare(_: DeviceAddress, _: NonNull<[u8]>, _: BufferDirection) {}
}

// SAFETY: the pages of the pool are mapped for ever. They stay allocated as long as the driver lets a device use them.
unsafe impl SharedMemory for DmaPool {
    fn at(address: DeviceAddress, bytes: usize) -> Option<NonNull<u8>> {
        dma::of_device(PhysAddr::try_new(address).ok()?, bytes)
    }
}
