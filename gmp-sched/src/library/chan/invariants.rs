//! Checks of the invariants in the [documentation](super#invariants) of channels.

use core::ptr;

use super::header::Header;
use crate::platform::Platform;

impl<Plat: Platform> Header<Plat> {
    /// Panics if an invariant is broken. The caller holds the lock and is about to release it.
    pub(super) fn assert_invariants(&self) {
        let (senders, receivers) = (self.senders.front(), self.receivers.front());
        if let (Some(sender), Some(receiver)) = (senders, receivers) {
            let is_one_select = self.capacity == 0 && ptr::eq(sender.goroutine(), receiver.goroutine());
            assert!(is_one_select, "senders and receivers wait for the same channel");
        }
        let is_idle = senders.is_none() && receivers.is_none();
        assert!(is_idle || !self.is_closed(), "a G waits for a closed channel");
        let length = self.len();
        assert!(length <= self.capacity, "{length} values are in a buffer for {}", self.capacity);
        assert!(length == 0 || receivers.is_none(), "a receiver waits although the buffer has a value");
        assert!(!self.word().is_dormant() || receivers.is_none(), "a receiver waits for a dormant timer");
        assert!(length == self.capacity || senders.is_none(), "a sender waits although the buffer has room");
    }
}
