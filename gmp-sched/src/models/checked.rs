//! Memory whose every use loom checks: what the protocols under test hand over.

use loom::cell::UnsafeCell;

/// A piece of memory that has one user at a time, each of which must see what the one before did.
#[derive(Debug, Default)]
pub(super) struct Checked(UnsafeCell<u32>);

// SAFETY: the cell is the thing under test: loom reports any access that the protocol does not order.
#[expect(unsafe_code, reason = "shares a checked cell between loom's threads")]
unsafe impl Sync for Checked {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "shares a checked cell between loom's threads")]
unsafe impl Send for Checked {}

impl Checked {
    /// Uses it once more.
    pub(super) fn used(&self) {
        #[expect(unsafe_code, reason = "writes the checked cell")]
        // SAFETY: loom checks that one use comes after the other.
        self.0.with_mut(|uses| unsafe { *uses += 1 });
    }

    /// How often it was used so far.
    pub(super) fn uses(&self) -> u32 {
        #[expect(unsafe_code, reason = "reads the checked cell")]
        // SAFETY: loom checks that the uses come before.
        self.0.with(|uses| unsafe { *uses })
    }
}
