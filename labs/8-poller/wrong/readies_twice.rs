//! After a raise during the commit the G goes on at once, although its deadline may have readied it.
//! fails: deadline, word

// ANCHOR: commit
        end.arm(pinned, me, generation);
        Plat::point(Site::DeviceSignal);
        let [parking, waiting] = [PARKING, WAITING].map(|state| with_generation(state, generation));
        self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed).is_ok()
// ANCHOR_END: commit
