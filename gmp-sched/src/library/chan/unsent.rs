//! A value on its way into a channel.

use core::mem::{self, MaybeUninit};

/// A value that is being sent. If the send panics, because its G may not wait or is outside of the channel's bubble,
/// the drop of this struct drops the value. [`moved`](Self::moved) ends the ownership without a drop.
///
/// The field is a `MaybeUninit`, because another G may own the value after the value has been moved out.
pub(super) struct Unsent<T>(MaybeUninit<T>);

impl<T> Unsent<T> {
    #[inline(always)]
    pub(super) fn new(value: T) -> Self {
        Self(MaybeUninit::new(value))
    }

    /// The address of the value. A caller that moves the value out must call [`moved`](Self::moved) before anything can
    /// panic.
    #[inline(always)]
    pub(super) fn as_ptr(&self) -> *const T {
        self.0.as_ptr()
    }

    /// Records that the value has been moved out.
    #[inline(always)]
    pub(super) fn moved(self) {
        mem::forget(self);
    }

    /// Returns the value, which must not have been moved out.
    #[inline(always)]
    pub(super) fn into_inner(self) -> T {
        // SAFETY: the value is still here, since `moved` has not been called; it is read once, because `self` is
        // forgotten.
        let value = unsafe { self.0.assume_init_read() };
        mem::forget(self);
        value
    }
}

impl<T> Drop for Unsent<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the value is still here, since `moved` has not been called.
        unsafe { self.0.assume_init_drop() }
    }
}
