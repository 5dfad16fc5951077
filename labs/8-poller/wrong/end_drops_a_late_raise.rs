//! A raise that comes after the deadline has ended the wait is dropped, and not kept for the next wait.
//! fails: raise, deadline, busy, word

// ANCHOR: end
        let ended = |word| (word & TAG != QUEUED).then_some(EMPTY);
        let word = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, ended).ok()?;
        Some(word & TAG == DELIVERED)
// ANCHOR_END: end
