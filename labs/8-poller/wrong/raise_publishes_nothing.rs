//! The raise has no Release, so the G may not see what the handler did before.
//! fails: word

// ANCHOR: raise
        let found = self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
            Some(match word & TAG {
                WAITING => with_generation(QUEUED, generation_of(word)),
                QUEUED | DELIVERED => word,
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
