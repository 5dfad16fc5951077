//! The thief stores the new head: two thieves then take the same elements.
//! fails: owner-and-thief, thieves

// ANCHOR: grab
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Acquire);
        let length = tail.wrapping_sub(head);
        let count = share(length).min(length);
        for offset in 0..count {
            let item = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
            thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
        }
        self.head.store(head.wrapping_add(count), Ordering::Release);
        count
// ANCHOR_END: grab
