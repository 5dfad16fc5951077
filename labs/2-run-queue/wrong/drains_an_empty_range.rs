//! The range of the positions is empty if the counters wrap in it.
//! fails: spill, owner-and-thief

// ANCHOR: drain_half
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) < Self::SIZE {
            return None;
        }
        let end = head.wrapping_add(Self::SIZE / 2);
        S::point(Site::RunQueue);
        if self.head.compare_exchange(head, end, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return None;
        }
        let item = move |position| self.slot(position).load(Ordering::Relaxed);
        Some((head..end).map(move |position| item(position).expect("the slots of a full ring are set")))
// ANCHOR_END: drain_half
