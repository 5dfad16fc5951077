//! "Relaxed works on x86": the compiler may still move the stores, and the language makes it a data race.
//! fails: owner-and-thief

// ANCHOR: push_back
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) >= Self::SIZE {
            return Err(Full);
        }
        self.slot(tail).store(Some(item), Ordering::Relaxed);
        self.tail.store(tail.wrapping_add(1), Ordering::Relaxed);
        Ok(())
// ANCHOR_END: push_back
