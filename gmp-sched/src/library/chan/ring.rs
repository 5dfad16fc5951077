//! The buffer of a channel: a ring of entries for values. The channel counts the entries in use, and the channel's lock
//! guards the ring.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;

use crate::base::atomic::{AtomicUsize, Ordering};
use crate::base::error::OutOfResources;

/// The ring of a channel. Go: `buf`, `sendx` and `recvx` of `hchan`.
pub(super) struct Ring<T> {
    entries: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Index of the next entry to push to.
    tail: AtomicUsize,
    /// Index of the oldest value.
    head: AtomicUsize,
}

impl<T> Ring<T> {
    pub(super) fn new(capacity: usize) -> Result<Self, OutOfResources> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(capacity).map_err(|_| OutOfResources)?;
        // SAFETY: the memory is reserved, and a `MaybeUninit` needs no initialisation. (Pushing the entries one by one
        // would take time proportional to the capacity, which may be any number for zero-sized types.)
        unsafe { entries.set_len(capacity) };
        Ok(Self { entries: entries.into_boxed_slice(), tail: AtomicUsize::new(0), head: AtomicUsize::new(0) })
    }

    /// Returns the entry at `position` and advances `position`.
    ///
    /// # Safety
    ///
    /// `position` is `head` or `tail` of this ring, and the capacity is not zero.
    #[inline(always)]
    unsafe fn advance(&self, position: &AtomicUsize) -> *mut T {
        let index = position.load(Ordering::Relaxed);
        let next = if index + 1 == self.entries.len() { 0 } else { index + 1 };
        position.store(next, Ordering::Relaxed);
        // SAFETY: both positions start at zero and change only here, so they stay below the capacity.
        unsafe { self.entries.get_unchecked(index) }.get().cast()
    }

    /// Moves the value at `from` to the tail of the ring.
    ///
    /// # Safety
    ///
    /// The caller holds the channel's lock, the ring is not full, and the caller owns the value at `from`.
    #[inline(always)]
    pub(super) unsafe fn push(&self, from: *const T) {
        // SAFETY: the capacity is not zero, because the ring is not full.
        let entry = unsafe { self.advance(&self.tail) };
        // SAFETY: the ring is not full, so the entry at the tail is free. The caller holds the lock, so no other G
        // accesses the entry, and the caller owns the value at `from`.
        unsafe { ptr::copy_nonoverlapping(from, entry, 1) }
    }

    /// Moves the oldest value to `to`.
    ///
    /// # Safety
    ///
    /// The caller holds the channel's lock, the ring is not empty, and `to` is uninitialised and writable.
    #[inline(always)]
    pub(super) unsafe fn pop(&self, to: *mut T) {
        // SAFETY: the capacity is not zero, because the ring is not empty.
        let entry = unsafe { self.advance(&self.head) };
        // SAFETY: the ring is not empty, so the entry at the head has a value, which is moved out only here. The caller
        // holds the lock, so no other G accesses the entry. The caller promises that `to` is uninitialised and
        // writable.
        unsafe { ptr::copy_nonoverlapping(entry, to, 1) }
    }
}
