//! Off by one: the ring that keeps a slot free, as rings do whose head and tail are indices. Here they are counters.
//! fails: fifo, spill, owner-and-thief, thieves

// ANCHOR: push_back
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) >= Self::SIZE - 1 {
            return Err(Full);
        }
        self.slot(tail).store(Some(item), Ordering::Relaxed);
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
// ANCHOR_END: push_back
