//! A close readies one receiver; the others wait for ever.
//! fails: handoff, order, close, programs

// ANCHOR: close
        if self.header.is_closed() {
            return None;
        }
        // Ordering: Release; partner: the Acquire in `word`.
        self.header.word.store(self.header.word().0 | RESTRICTED | CLOSED, Ordering::Release);
        let first = crate::library::waiter::WaitQueue::new();
        if let Some((receiver, _)) = self.header.receivers.pop_with_goroutine() {
            first.push_back(receiver);
        }
        Some([self.header.senders.take_all(), first.take_all()])
// ANCHOR_END: close
