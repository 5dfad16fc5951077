//! A G that has to wait looks again and again, and lets others run in between.
//! fails: limits, timers, sleeps

// ANCHOR: wait
        let _ = queue;
        loop {
            let mut state = self.state.lock_until(limit)?;
            state.check_link()?;
            let result = act(&mut state);
            if state.finish() {
                self.wake.raise();
            }
            drop(state);
            if let Some(result) = result {
                return result;
            }
            gmp_sched::yield_now::yield_now::<Plat>();
        }
// ANCHOR_END: wait
