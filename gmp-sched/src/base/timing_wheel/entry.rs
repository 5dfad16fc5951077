//! The part of an element that a wheel uses: its time, and its place in the circular list of a slot.

use core::ptr;

use crate::base::atomic::{AtomicU64, Ordering};
use crate::base::reference::AtomicRef;

pub(super) const RING: &str = "a ring has no end";

/// Something that can be in one [`TimingWheel`](super::TimingWheel) at a time.
pub(crate) trait Timed: Sized + 'static {
    /// The element's time and links.
    fn entry(&self) -> &WheelEntry<Self>;
}

/// The time and the links of an element. The lock that guards the wheel also guards them.
pub(crate) struct WheelEntry<T: 'static> {
    pub(super) when: AtomicU64,
    /// The next element in the circular list of the slot. This is the element itself if it is alone in the slot, and
    /// `None` if the element is in no wheel.
    pub(super) next: AtomicRef<T>,
    pub(super) previous: AtomicRef<T>,
}

impl<T> WheelEntry<T> {
    /// The entry of an element that is in no wheel.
    pub(crate) fn unlinked() -> Self {
        Self { when: AtomicU64::new(0), next: AtomicRef::none(), previous: AtomicRef::none() }
    }

    /// Whether the element is in a wheel. If the caller does not hold the lock that guards the wheel, the answer is
    /// only a hint.
    pub(crate) fn is_linked(&self) -> bool {
        self.next.load(Ordering::Relaxed).is_some()
    }

    /// The link for a list that contains the element while the element is in no wheel. The link must be `None` again
    /// when the element is inserted into a wheel.
    #[cfg(feature = "synctest")]
    pub(crate) fn link(&self) -> &AtomicRef<T> {
        &self.next
    }

    /// Clears what is left of the last time that the element was in a wheel, if it is in none.
    #[cfg(feature = "std")]
    pub(crate) fn forget(&self) {
        if !self.is_linked() {
            self.when.store(0, Ordering::Relaxed);
            self.previous.store(None, Ordering::Relaxed);
        }
    }

    pub(super) fn when(&self) -> u64 {
        self.when.load(Ordering::Relaxed)
    }

    /// The next element in the circular list.
    #[inline(always)]
    pub(super) fn next(&self) -> &'static T {
        self.next.load(Ordering::Relaxed).expect(RING)
    }
}

/// Calls `each` with each element of a circular list and its time, starting with `first`. `each` may unlink the
/// element.
#[inline(always)]
pub(super) fn for_each_in_ring<T: Timed>(first: &'static T, mut each: impl FnMut(&'static T, u64)) {
    let mut element = first;
    loop {
        let next = element.entry().next();
        each(element, element.entry().when());
        if ptr::eq(next, first) {
            return;
        }
        element = next;
    }
}
