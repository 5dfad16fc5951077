//! A waker that finds no idle P does not look again after it has stopped to count as spinning.
//! fails: waker

// ANCHOR: none_idle
            self.spinning.fetch_sub(1, Ordering::SeqCst);
            return;
// ANCHOR_END: none_idle
