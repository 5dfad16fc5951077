//! The limit is armed when the G may have gone on already, and begun the next wait, with another limit.
//! fails: word

// ANCHOR: commit
        Plat::point(Site::DeviceSignal);
        let [parking, waiting] = [PARKING, WAITING].map(|state| with_generation(state, generation));
        let waits = self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed).is_ok();
        end.arm(pinned, me, generation);
        waits || !me.claim(generation)
// ANCHOR_END: commit
