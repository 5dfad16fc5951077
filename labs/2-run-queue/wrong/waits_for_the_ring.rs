//! A push waits until there is room. Nobody makes room while the owner waits: this never ends.
//! fails: fifo

// ANCHOR: push_back
        loop {
            let head = self.head.load(Ordering::Acquire);
            let tail = self.tail.load(Ordering::Relaxed);
            if tail.wrapping_sub(head) < Self::SIZE {
                self.slot(tail).store(Some(item), Ordering::Relaxed);
                self.tail.store(tail.wrapping_add(1), Ordering::Release);
                return Ok(());
            }
            let _ = Full;
        }
// ANCHOR_END: push_back
