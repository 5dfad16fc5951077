//! The owner stores the new head: a thief that has claimed elements meanwhile takes them, too.
//! fails: owner-and-thief

// ANCHOR: drain_half
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) < Self::SIZE {
            return None;
        }
        let half = Self::SIZE / 2;
        self.head.store(head.wrapping_add(half), Ordering::Release);
        // The compare-exchange has taken these elements. Their slots still contain them, because only the owner, which
        // is the caller, overwrites slots.
        let item = move |offset| self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
        Some((0..half).map(move |offset| item(offset).expect("the slots of a full ring are set")))
// ANCHOR_END: drain_half
