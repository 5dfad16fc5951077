//! The buffer of a channel: a ring of places for values. It knows neither how many there are nor who may use it; the
//! channel does.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;

use crate::base::atomic::{AtomicUsize, Ordering};
use crate::platform::OutOfResources;

/// Go: `buf`, `sendx` and `recvx` of `hchan`.
pub(super) struct Ring<T> {
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Where the next value goes.
    tail: AtomicUsize,
    /// Where the oldest value is.
    head: AtomicUsize,
}

impl<T> Ring<T> {
    pub(super) fn new(capacity: usize) -> Result<Self, OutOfResources> {
        let mut places = Vec::new();
        places.try_reserve_exact(capacity).map_err(|_| OutOfResources)?;
        // SAFETY: there is room for so many, and a place that may be empty needs no value. (One by one would take as long as
        // there are places, which for values without a size may be any number.)
        unsafe { places.set_len(capacity) };
        Ok(Self { places: places.into_boxed_slice(), tail: AtomicUsize::new(0), head: AtomicUsize::new(0) })
    }

    /// The place at `position`, which goes on to the next.
    ///
    /// # Safety
    ///
    /// `position` is one of this ring's two, and the ring has places.
    #[inline(always)]
    unsafe fn advance(&self, position: &AtomicUsize) -> *mut T {
        let index = position.load(Ordering::Relaxed);
        let next = if index + 1 == self.places.len() { 0 } else { index + 1 };
        position.store(next, Ordering::Relaxed);
        // SAFETY: both positions begin at zero and are only changed here, so they stay below the number of places.
        unsafe { self.places.get_unchecked(index) }.get().cast()
    }

    /// Moves the value at `from` to the tail.
    ///
    /// # Safety
    ///
    /// The caller holds the channel's lock, the ring is not full, and the value at `from` is the caller's to move.
    #[inline(always)]
    pub(super) unsafe fn push(&self, from: *const T) {
        // SAFETY: it has places, since it is not full.
        let place = unsafe { self.advance(&self.tail) };
        // SAFETY: the place at the tail is free, since the ring is not full, and nobody else looks at it, since the lock is
        // held; by the caller `from` has a value.
        unsafe { ptr::copy_nonoverlapping(from, place, 1) }
    }

    /// Moves the oldest value to `to`.
    ///
    /// # Safety
    ///
    /// The caller holds the channel's lock, the ring is not empty, and `to` is free and may be written.
    #[inline(always)]
    pub(super) unsafe fn pop(&self, to: *mut T) {
        // SAFETY: it has places, since it is not empty.
        let place = unsafe { self.advance(&self.head) };
        // SAFETY: the place at the head has a value, since the ring is not empty, and is given up here; by the caller `to`
        // is free.
        unsafe { ptr::copy_nonoverlapping(place, to, 1) }
    }
}
