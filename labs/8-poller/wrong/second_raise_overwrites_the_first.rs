//! A second raise forgets that the signal is on the raised list already.
//! fails: word

// ANCHOR: raise
        // Ordering: Release publishes what the handler did, even if the word does not change. Partners: the exchanges
        // in `check` and `end`.
        let found = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            Some(match word & TAG {
                WAITING => with_generation(QUEUED, generation_of(word)),
                DELIVERED => word,
                _ => RAISED,
            })
        });
        if found.is_ok_and(|word| word & TAG != WAITING) {
            return;
        }
        // The exchange has acquired this field from `commit`. While the state is QUEUED, no other wait can begin, and
        // nobody delivers the raise before the signal is on the list. So the field is that of the wait which is ended.
        let goroutine = self.goroutine.load(Ordering::Relaxed).expect("a G waits");
        let scheduler = goroutine.scheduler();
        scheduler.put_raised(self, goroutine);
        scheduler.wake_poller();
// ANCHOR_END: raise
