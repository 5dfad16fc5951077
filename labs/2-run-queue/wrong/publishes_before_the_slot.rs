//! The tail moves before the slot is written: a thief takes what stood there before.
//! fails: owner-and-thief

// ANCHOR: push_back
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) >= Self::SIZE {
            return Err(Full);
        }
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        self.slot(tail).store(Some(item), Ordering::Relaxed);
        Ok(())
// ANCHOR_END: push_back
