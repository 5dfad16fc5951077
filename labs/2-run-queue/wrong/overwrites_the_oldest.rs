//! A push into a full ring overwrites the oldest element, as a ring buffer of a log does.
//! fails: fifo

// ANCHOR: push_back
        let tail = self.tail.load(Ordering::Relaxed);
        self.slot(tail).store(Some(item), Ordering::Relaxed);
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
// ANCHOR_END: push_back
