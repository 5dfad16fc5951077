//! Signals as they should be, but a raise wakes an M and preempts another one, whether or not there is one of them that would
//! look by itself. The network is silent.

// ANCHOR: raise
        let found = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            Some(match word & TAG {
                WAITING => with_generation(QUEUED, generation_of(word)),
                QUEUED | DELIVERED => word,
                _ => RAISED,
            })
        });
        if found.is_ok_and(|word| word & TAG == WAITING) {
            let goroutine = self.goroutine.load(Ordering::Relaxed).expect("a G waits");
            goroutine.scheduler().put_raised(self, goroutine);
            goroutine.scheduler().wake_poller();
        }
// ANCHOR_END: raise

// ANCHOR: commit
        end.arm(pinned, me, generation);
        Plat::point(Site::DeviceSignal);
        let [parking, waiting] = [PARKING, WAITING].map(|state| with_generation(state, generation));
        let waits = self.word.compare_exchange(parking, waiting, Ordering::Release, Ordering::Relaxed).is_ok();
        waits || !me.claim(generation)
// ANCHOR_END: commit

// ANCHOR: end
        let ended = |word| matches!(word & TAG, PARKING | WAITING | DELIVERED).then_some(EMPTY);
        let word = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, ended).ok()?;
        Some(word & TAG == DELIVERED)
// ANCHOR_END: end

// ANCHOR: wake_poller
        fence(Ordering::SeqCst);
        Plat::point(Site::DeviceSignal);
        if let Some(machine) = self.poller.load(Ordering::Acquire) {
            Plat::unpark_thread(machine);
        }
        self.preempt_to_poll();
// ANCHOR_END: wake_poller
