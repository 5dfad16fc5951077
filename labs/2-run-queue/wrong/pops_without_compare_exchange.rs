//! "Only I pop from my own queue": but thieves move the same head.
//! fails: owner-and-thief, thieves

// ANCHOR: pop_ring
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if head == tail {
            return None;
        }
        let item = self.slot(head).load(Ordering::Relaxed);
        self.advance_head(head, false);
        item.map(|item| (item, Slice::New))
// ANCHOR_END: pop_ring
