//! The wait has no deadline.
//! fails: raise, deadline, connections, timers

// ANCHOR: commit
        let _ = (pinned, end);
        Plat::point(Site::DeviceSignal);
        let [parking, waiting] = [PARKING, WAITING].map(|state| with_generation(state, generation));
        // Ordering: Release publishes `self.goroutine` and the fact that this G has left its stack. Partner: the
        // exchange in `raise`.
        let waits = self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed).is_ok();
        // If the exchange failed, the signal was raised in the meantime. If the claim then succeeds, the G has to
        // continue at once (`false`). If the claim fails, `end` has already readied the G, and nothing is left to do
        // (`true`).
        waits || !me.claim(generation)
// ANCHOR_END: commit
