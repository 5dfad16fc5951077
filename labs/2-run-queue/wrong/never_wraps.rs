//! The counters are added and subtracted as if they never wrapped.
//! fails: fifo, spill, steal, owner-and-thief, thieves

// ANCHOR: push_back
        S::point(Site::RunQueue);
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail - head == Self::SIZE {
            return Err(Full);
        }
        self.slot(tail).store(Some(item), Ordering::Relaxed);
        self.tail.store(tail + 1, Ordering::Release);
        Ok(())
// ANCHOR_END: push_back
