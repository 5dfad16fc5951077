//! The room in a G for a small closure or result; see [`crate::lifecycle::closure`].

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// The most bytes of a closure or result that is stored in the G.
pub(crate) const ROOM: usize = 64;

/// Alignment of the upper end of every stack, and of this storage.
pub(crate) const ALIGN: usize = 16;

/// Storage for a small closure or result. The state of the G determines who owns it: first the G's creator, then the G
/// itself, then the holder of the right to its result.
#[repr(C, align(16))]
pub(crate) struct InlineBody(UnsafeCell<MaybeUninit<[u8; ROOM]>>);

impl InlineBody {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Its address. For [`crate::lifecycle::closure`].
    #[inline(always)]
    pub(crate) fn room(&self) -> *mut MaybeUninit<[u8; ROOM]> {
        self.0.get()
    }
}

#[expect(unsafe_code, reason = "a place for a value that goes from one G to another")]
// SAFETY: only `lifecycle::closure` reads and writes it, for its owner, by the address that `room` returns; closures and results
// are `Send`.
unsafe impl Sync for InlineBody {}
