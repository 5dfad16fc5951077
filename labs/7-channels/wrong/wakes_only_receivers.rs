//! A close ends the waits of receivers. Senders wait for ever.
//! fails: handoff, order, close, programs, races

// ANCHOR: close
        if self.header.is_closed() {
            return None;
        }
        // Ordering: Release; partner: the Acquire in `word`.
        self.header.word.store(self.header.word().0 | RESTRICTED | CLOSED, Ordering::Release);
        Some([crate::library::waiter::WaitQueue::new().take_all(), self.header.receivers.take_all()])
// ANCHOR_END: close
