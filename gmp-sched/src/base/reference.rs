//! An atomic `Option<&'static T>`, with which Gs, Ms and Ps refer to each other.
//!
//! Gs, Ms and Ps are never freed, only reused. So a reference to a G, M or P is always valid, even a stale one that a
//! thief has read from a slot of a ring before the thief's compare-exchange fails. This is why the scheduling policy of
//! this crate needs no `unsafe`.

use core::fmt;
use core::marker::PhantomData;
use core::ptr;

use crate::base::atomic::{AtomicPtr, Ordering};
use crate::base::under_loom::const_fn;

/// An atomic `Option<&'static T>`.
///
/// It is `Send` and `Sync` only if `&'static T` is, because it passes such references between threads. A bare
/// `AtomicPtr<T>` would be `Send` and `Sync` for every `T`.
pub(crate) struct AtomicRef<T: 'static>(AtomicPtr<T>, PhantomData<&'static T>);

/// Returns the pointer that is stored for a reference: null for `None`.
fn to_pointer<T>(reference: Option<&'static T>) -> *mut T {
    reference.map_or(ptr::null_mut(), |target| ptr::from_ref(target).cast_mut())
}

impl<T> AtomicRef<T> {
    const_fn! {
        pub(crate) fn none() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()), PhantomData)
        }
    }

    pub(crate) fn new(reference: Option<&'static T>) -> Self {
        Self(AtomicPtr::new(to_pointer(reference)), PhantomData)
    }

    /// Converts a stored pointer back into the reference that it was made from.
    ///
    /// # Safety
    ///
    /// `pointer` was made by [`to_pointer`].
    #[expect(unsafe_code, reason = "the one place where a stored pointer becomes a reference again")]
    unsafe fn to_reference(pointer: *mut T) -> Option<&'static T> {
        // SAFETY: the caller guarantees that `pointer` is null or was made from a `&'static T`, so it is valid for
        // ever. No exclusive reference is ever made from it.
        unsafe { pointer.as_ref() }
    }

    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> Option<&'static T> {
        #[expect(unsafe_code, reason = "see `to_reference`")]
        // SAFETY: all methods of this type store only pointers made by `to_pointer`, or null, in `self.0`.
        unsafe {
            Self::to_reference(self.0.load(order))
        }
    }

    #[inline]
    pub(crate) fn store(&self, value: Option<&'static T>, order: Ordering) {
        self.0.store(to_pointer(value), order);
    }

    /// Atomic exchange; returns the old value.
    #[inline]
    pub(crate) fn swap(&self, value: Option<&'static T>, order: Ordering) -> Option<&'static T> {
        #[expect(unsafe_code, reason = "see `to_reference`")]
        // SAFETY: all methods of this type store only pointers made by `to_pointer`, or null, in `self.0`.
        unsafe {
            Self::to_reference(self.0.swap(to_pointer(value), order))
        }
    }

    /// Compare-exchange: replaces `current` by `new`; returns whether it succeeded.
    #[inline]
    pub(crate) fn replace(
        &self,
        current: Option<&'static T>,
        new: Option<&'static T>,
        success: Ordering,
        failure: Ordering,
    ) -> bool {
        self.0.compare_exchange(to_pointer(current), to_pointer(new), success, failure).is_ok()
    }
}

impl<T> fmt::Debug for AtomicRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", to_pointer(self.load(Ordering::Relaxed)))
    }
}

/// Pushes `item` to the front of a lock-free list whose elements are never removed.
#[inline]
pub(crate) fn push_forever<T>(
    head: &AtomicRef<T>,
    item: &'static T,
    link: impl Fn(&'static T) -> &'static AtomicRef<T>,
) {
    loop {
        let old = head.load(Ordering::Relaxed);
        link(item).store(old, Ordering::Relaxed);
        // Ordering: Release publishes the item and its link; partner: the Acquire loads that walk the list.
        if head.replace(old, Some(item), Ordering::Release, Ordering::Relaxed) {
            return;
        }
    }
}
