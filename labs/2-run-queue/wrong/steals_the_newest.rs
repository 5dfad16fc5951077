//! The thief takes the newest elements. They are hot in the owner's cache, and the oldest wait longer.
//! fails: steal, owner-and-thief, thieves

// ANCHOR: grab
        loop {
            let head = self.head.load(Ordering::Acquire);
            let tail = self.tail.load(Ordering::Acquire);
            let length = tail.wrapping_sub(head);
            if length > Self::SIZE {
                continue;
            }
            let count = share(length).min(length);
            if count == 0 {
                return 0;
            }
            let first = tail.wrapping_sub(count);
            for offset in 0..count {
                let item = self.slot(first.wrapping_add(offset)).load(Ordering::Relaxed);
                thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
            }
            let next = head.wrapping_add(count);
            if self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return count;
            }
        }
// ANCHOR_END: grab
