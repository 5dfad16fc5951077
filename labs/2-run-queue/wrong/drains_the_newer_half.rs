//! A full ring gives its newer half away: the oldest half then has the oldest Gs, and the global queue the others.
//! fails: spill, owner-and-thief

// ANCHOR: drain_half
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) < Self::SIZE {
            return None;
        }
        let half = Self::SIZE / 2;
        self.tail.store(head.wrapping_add(half), Ordering::Release);
        let item = move |offset| self.slot(head.wrapping_add(half + offset)).load(Ordering::Relaxed);
        Some((0..half).map(move |offset| item(offset).expect("the slots of a full ring are set")))
// ANCHOR_END: drain_half
