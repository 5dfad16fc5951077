//! The thief claims the elements before it copies them. The owner then overwrites slots that are not copied yet.
//! fails: owner-and-thief

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
            let next = head.wrapping_add(count);
            if self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                for offset in 0..count {
                    let item = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
                    thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
                }
                return count;
            }
        }
// ANCHOR_END: grab
