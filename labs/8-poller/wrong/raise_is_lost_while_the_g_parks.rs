//! A raise that comes while the G parks is lost.
//! fails: raise, deadline, busy, word, connections

// ANCHOR: raise
        let found = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            Some(match word & TAG {
                WAITING => with_generation(QUEUED, generation_of(word)),
                QUEUED | DELIVERED | PARKING => word,
                _ => RAISED,
            })
        });
        if found.is_ok_and(|word| word & TAG != WAITING) {
            return;
        }
        let goroutine = self.goroutine.load(Ordering::Relaxed).expect("a G waits");
        let scheduler = goroutine.scheduler();
        scheduler.put_raised(self, goroutine);
        scheduler.wake_poller();
// ANCHOR_END: raise
