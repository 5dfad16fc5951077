//! A wait that its deadline has ended leaves the signal marked, so that the next raise readies nobody.
//! fails: raise, deadline, word, connections, timers

// ANCHOR: end
        let ended = |word| matches!(word & TAG, PARKING | DELIVERED).then_some(EMPTY);
        let word = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, ended).ok()?;
        Some(word & TAG == DELIVERED)
// ANCHOR_END: end
