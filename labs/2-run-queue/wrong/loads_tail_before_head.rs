//! The thief loads tail first: by the time it loads head, the owner may have popped what was pushed in between, so head is
//! beyond that tail, and the length wraps around.
//! fails: owner-and-thief, thieves

// ANCHOR: grab
        loop {
            let tail = self.tail.load(Ordering::Acquire);
            let head = self.head.load(Ordering::Acquire);
            let count = share(tail.wrapping_sub(head));
            if count == 0 {
                return 0;
            }
            for offset in 0..count {
                S::point(Site::RunQueue);
                let item = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
                thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
            }
            let next = head.wrapping_add(count);
            if self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return count;
            }
        }
// ANCHOR_END: grab
