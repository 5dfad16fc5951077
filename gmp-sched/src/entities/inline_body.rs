//! The place in a G for a small closure or result; see [`crate::lifecycle::body`].

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// Bytes of a closure or result that has its place in the G.
pub(crate) const ROOM: usize = 64;

/// What the upper end of every stack is a multiple of, and the place for a closure or result, too.
pub(crate) const ALIGN: usize = 16;

/// The place for a small closure or result. Whose it is follows from the state of the G: its maker's, its own, and then that of
/// whoever has the right to its result.
#[repr(C, align(16))]
pub(crate) struct InlineBody(UnsafeCell<MaybeUninit<[u8; ROOM]>>);

impl InlineBody {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Where it is. For [`crate::lifecycle::body`].
    #[inline(always)]
    pub(crate) fn room(&self) -> *mut MaybeUninit<[u8; ROOM]> {
        self.0.get()
    }
}

#[expect(unsafe_code, reason = "a place for a value that goes from one G to another")]
// SAFETY: only `lifecycle::body` reads and writes it, for its owner, by the address that `room` returns; closures and results
// are `Send`.
unsafe impl Sync for InlineBody {}
