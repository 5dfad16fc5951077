//! The thief takes the whole ring: the victim is then the one without work, and the Gs move back and forth.
//! fails: steal

// ANCHOR: grab
        let _ = share;
        loop {
            let head = self.head.load(Ordering::Acquire);
            let tail = self.tail.load(Ordering::Acquire);
            let count = tail.wrapping_sub(head);
            if count > Self::SIZE {
                continue;
            }
            if count == 0 {
                return 0;
            }
            for offset in 0..count {
                let item = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
                thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
            }
            let next = head.wrapping_add(count);
            if self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return count;
            }
        }
// ANCHOR_END: grab
