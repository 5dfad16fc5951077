//! The wait has no deadline.
//! fails: raise, deadline, connections, timers

// ANCHOR: commit
        let _ = (pinned, end);
        Plat::point(Site::DeviceSignal);
        let [parking, waiting] = [PARKING, WAITING].map(|state| with_generation(state, generation));
        let waits = self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed).is_ok();
        waits || !me.claim(generation)
// ANCHOR_END: commit
