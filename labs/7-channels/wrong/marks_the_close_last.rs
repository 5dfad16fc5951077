//! A close takes the waiters before it marks the channel: for a moment it is open, and nobody waits.
//! fails: races

// ANCHOR: close
        if self.header.is_closed() {
            return None;
        }
        // Ordering: Release; partner: the Acquire in `word`.
        let woken = [self.header.senders.take_all(), self.header.receivers.take_all()];
        self.header.word.store(self.header.word().0 | RESTRICTED | CLOSED, Ordering::Release);
        Some(woken)
// ANCHOR_END: close
