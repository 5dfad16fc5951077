//! A second close closes the channel again.
//! fails: close

// ANCHOR: close
        // Ordering: Release; partner: the Acquire in `word`.
        self.header.word.store(self.header.word().0 | RESTRICTED | CLOSED, Ordering::Release);
        Some([self.header.senders.take_all(), self.header.receivers.take_all()])
// ANCHOR_END: close
