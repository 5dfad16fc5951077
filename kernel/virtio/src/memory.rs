//! Memory that the driver shares with a device. The driver accesses it by the functions of this file, and by the atomic
//! integers that they return.
//!
//! The device may write to this memory at any time, although it should write only what the driver has passed to it. So
//! the driver has no references to the memory, except for those to atomic integers. It copies everything else. If the
//! device wrongly changes bytes while they are copied, only the copied data is wrong.

#![expect(unsafe_code, reason = "accesses memory that the device accesses, too")]

use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicU8, AtomicU16};

#[cfg(test)]
use crate::tests::races::before_shared_read;
use crate::{Dma, OpenError, PAGE_SIZE};

/// Called before each read of memory that the device may write. The arguments are the address and the number of bytes
/// that are read. In the tests, a fake device writes to the memory in this function.
#[cfg(not(test))]
#[inline(always)]
const fn before_shared_read(_: *const u8, _: usize) {}

/// Memory that the device can access. Only the device and the holder of this value access it. The memory is not freed
/// when the value is dropped, because the device may still access it.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
    /// The address by which the device accesses the memory.
    address: u64,
}

// SAFETY: only the device and the holder of this value access the memory, so the value may move to another thread.
unsafe impl Send for Memory {}
// SAFETY: a shared reference to the value only allows reads of the memory.
unsafe impl Sync for Memory {}

/// Where the device finds a part of the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

/// A type that consists of atomic integers, for which every content of the memory is a value.
///
/// # Safety
/// The type must be as this says.
pub(crate) unsafe trait Atomic: 'static {}

// SAFETY: the type is an atomic integer.
unsafe impl Atomic for AtomicU8 {}
// SAFETY: the type is an atomic integer.
unsafe impl Atomic for AtomicU16 {}

impl Memory {
    /// Allocates pages, filled with zeros.
    pub(crate) fn allocate<M: Dma>(pages: usize) -> Result<Self, OpenError> {
        let (start, address) = M::allocate(pages).ok_or(OpenError::OutOfMemory)?;
        Ok(Self { start, bytes: pages * PAGE_SIZE, address })
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// The value came from [`allocate`](Self::allocate), with the same `M`, and no part of it was split off. The device
    /// does not access the memory any more, and no result of [`atomics_for_ever`](Self::atomics_for_ever) is used.
    pub(crate) unsafe fn free<M: Dma>(self) {
        // SAFETY: the caller promises that nothing uses these pages, which came from `allocate`.
        unsafe { M::free(self.start, self.bytes / PAGE_SIZE) };
    }

    /// Splits the first `bytes` bytes off.
    ///
    /// # Panics
    /// If there are fewer bytes.
    pub(crate) fn split_off(&mut self, bytes: usize) -> Self {
        let first = Self { start: self.at(0, bytes), bytes, address: self.address };
        // SAFETY: the call of `at` has checked that there are so many bytes.
        self.start = unsafe { self.start.add(bytes) };
        self.address += bytes as u64;
        self.bytes -= bytes;
        first
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a pointer to the `bytes` bytes from `offset` on.
    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "within the memory");
        // SAFETY: the assertion ensures that the result is within the memory.
        unsafe { self.start.add(offset) }
    }

    /// Returns where the device finds the `bytes` bytes from `offset` on.
    ///
    /// # Panics
    /// If the range extends past the end of the memory. The functions below panic in this case, too.
    pub(crate) fn span(&self, offset: usize, bytes: usize) -> Span {
        self.at(offset, bytes);
        Span { address: self.address + offset as u64, bytes }
    }

    /// Fills `into` with the bytes from `offset` on.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.at(offset, into.len());
        before_shared_read(from.as_ptr(), into.len());
        // SAFETY: `at` has checked the range. `into` is other memory, because there are no references to this one,
        // except for those to atomic integers.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr(), into.len()) };
    }

    /// Copies `from` to the memory, from `offset` on.
    pub(crate) fn write(&mut self, offset: usize, from: &[u8]) {
        let to = self.at(offset, from.len());
        // SAFETY: as in `read`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
    }

    /// Returns a part of the memory as atomic integers.
    pub(crate) fn atomics<T: Atomic>(&mut self, offset: usize, count: usize) -> &[T] {
        // SAFETY: the result borrows the value for as long as it exists, and `Memory` does not free memory.
        unsafe { self.atomics_for_ever(offset, count) }
    }

    /// Returns a part of the memory as atomic integers, which can be used even after the value has been dropped.
    ///
    /// # Safety
    /// As long as the result is used, the memory is not freed, and the driver accesses this part only by such results.
    pub(crate) unsafe fn atomics_for_ever<T: Atomic>(&self, offset: usize, count: usize) -> &'static [T] {
        let start = self.at(offset, count * size_of::<T>()).cast::<T>();
        assert!(start.is_aligned(), "aligned");
        // SAFETY: the memory is valid and aligned, and every content is a value. The caller promises the rest.
        unsafe { slice::from_raw_parts(start.as_ptr(), count) }
    }
}

/// Reads a value that the device may change at any time.
pub(crate) fn read_shared<T: Atomic, R>(from: &T, read: impl FnOnce(&T) -> R) -> R {
    before_shared_read(ptr::from_ref(from).cast(), size_of::<T>());
    read(from)
}
