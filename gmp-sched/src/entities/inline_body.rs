//! The storage in a G for a small closure or result; see [`crate::lifecycle::closure`].

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// Size in bytes of the largest closure or result that is stored in the G.
pub(crate) const ROOM: usize = 64;

/// The alignment of [`InlineBody`], and of the upper end of every stack.
pub(crate) const ALIGN: usize = 16;

/// Storage for a small closure or result. The state of the G determines the owner of the storage: first the G's
/// creator, then the G itself, then the owner of the result.
#[repr(C, align(16))]
pub(crate) struct InlineBody(UnsafeCell<MaybeUninit<[u8; ROOM]>>);

impl InlineBody {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// The address of the storage. Used by [`crate::lifecycle::closure`] only.
    #[inline(always)]
    pub(crate) fn room(&self) -> *mut MaybeUninit<[u8; ROOM]> {
        self.0.get()
    }
}

#[expect(unsafe_code, reason = "a place for a value that goes from one G to another")]
// SAFETY: only `lifecycle::closure` accesses the storage, and only on behalf of its owner, which the state of the G
// determines. So two threads never access it at once. Closures and results are `Send`.
unsafe impl Sync for InlineBody {}
