//! Memory of which loom checks every access. It represents the data that a protocol under test passes between threads.

use loom::cell::UnsafeCell;

/// Memory that has one user at a time; each user must see what the previous one did.
#[derive(Debug, Default)]
pub(super) struct Checked(UnsafeCell<u32>);

// SAFETY: loom checks every access to this cell, and reports each access that the protocol does not order.
#[expect(unsafe_code, reason = "shares a checked cell between loom's threads")]
unsafe impl Sync for Checked {}
// SAFETY: as for `Sync`.
#[expect(unsafe_code, reason = "shares a checked cell between loom's threads")]
unsafe impl Send for Checked {}

impl Checked {
    /// Accesses the memory once.
    pub(super) fn used(&self) {
        #[expect(unsafe_code, reason = "writes the checked cell")]
        // SAFETY: loom checks that the uses are ordered.
        self.0.with_mut(|uses| unsafe { *uses += 1 });
    }

    /// The number of uses so far.
    pub(super) fn uses(&self) -> u32 {
        #[expect(unsafe_code, reason = "reads the checked cell")]
        // SAFETY: loom checks that all uses happen before this read.
        self.0.with(|uses| unsafe { *uses })
    }
}
