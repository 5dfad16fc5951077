//! A close throws away what is in the buffer.
//! fails: close, programs

// ANCHOR: close
        if self.header.is_closed() {
            return None;
        }
        // Ordering: Release; partner: the Acquire in `word`.
        self.header.word.store(RESTRICTED | CLOSED, Ordering::Release);
        Some([self.header.senders.take_all(), self.header.receivers.take_all()])
// ANCHOR_END: close
