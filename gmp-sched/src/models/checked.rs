//! Memory whose every access loom checks: stands for what the protocols under test hand over.

use loom::cell::UnsafeCell;

/// Memory with one user at a time, each of which must see what the previous one did.
#[derive(Debug, Default)]
pub(super) struct Checked(UnsafeCell<u32>);

// SAFETY: the cell is what is tested: loom reports any access that the protocol does not order.
#[expect(unsafe_code, reason = "shares a checked cell between loom's threads")]
unsafe impl Sync for Checked {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "shares a checked cell between loom's threads")]
unsafe impl Send for Checked {}

impl Checked {
    /// Uses it once.
    pub(super) fn used(&self) {
        #[expect(unsafe_code, reason = "writes the checked cell")]
        // SAFETY: loom checks that the uses are ordered.
        self.0.with_mut(|uses| unsafe { *uses += 1 });
    }

    /// The number of uses so far.
    pub(super) fn uses(&self) -> u32 {
        #[expect(unsafe_code, reason = "reads the checked cell")]
        // SAFETY: loom checks that all uses happen before this.
        self.0.with(|uses| unsafe { *uses })
    }
}
