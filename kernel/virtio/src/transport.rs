//! What the kernel offers to the drivers: the registers of a device, its doorbells, and memory.

#![expect(unsafe_code, reason = "the memory has a contract")]

use core::ptr::NonNull;

/// The size of a page, in bytes.
pub const PAGE_SIZE: usize = 4096;

/// The registers of a device (virtio 1.2, 2 and 4.1.4.3).
pub trait Transport {
    /// Returns the features that the device offers.
    fn offered_features(&mut self) -> u64;

    /// Tells the device which of these features the driver uses.
    fn accept_features(&mut self, features: u64);

    /// Reads the status register.
    fn status(&self) -> u8;

    /// Writes the status register. A status of 0 resets the device.
    fn set_status(&mut self, status: u8);

    /// If the device can, makes it interrupt when its configuration changes, and when it needs a reset. A reset undoes this.
    fn announce_changes(&mut self) {}

    /// Returns a number that changes when the configuration changes.
    fn generation(&self) -> u8;

    /// Reads a word of the configuration. Returns `None` if the device has none at this offset.
    fn configuration(&self, offset: usize) -> Option<u32>;

    /// Returns the largest number of entries of a queue, or 0 if the device has no such queue.
    fn queue_entries(&mut self, queue: u16) -> u16;

    /// Whether a queue was set up since the last reset.
    fn is_queue_set(&mut self, queue: u16) -> bool;

    /// Sets up a queue with this number of entries. The addresses are those of its descriptors, its available ring and
    /// its used ring.
    fn set_queue(&mut self, queue: u16, entries: u16, addresses: [u64; 3]);
}

/// How the driver notifies a device of a queue.
pub trait Doorbell {
    /// Makes the device read the queue, to which the driver has added requests before.
    fn ring(&self);
}

/// Memory that devices can access.
///
/// # Safety
/// The pages that [`allocate`](Self::allocate) returns are consecutive, for the driver and for devices, and are filled
/// with zeros. Nothing else uses them until they are freed. The pointers that [`at`](Self::at) returns are valid for
/// reads and writes as long as a driver lets a device use the memory.
pub unsafe trait Dma {
    /// Allocates pages. Returns where they are, and the address by which a device accesses them, or `None` if there is
    /// no memory.
    fn allocate(pages: usize) -> Option<(NonNull<u8>, u64)>;

    /// Frees pages.
    ///
    /// # Safety
    /// They came from [`allocate`](Self::allocate), with this number, and neither a driver nor a device uses them.
    unsafe fn free(start: NonNull<u8>, pages: usize);

    /// Returns a pointer to the `bytes` bytes that a device accesses by `address`, or `None` if they are not shared
    /// with devices. For devices in software.
    fn at(address: u64, bytes: usize) -> Option<NonNull<u8>>;
}
