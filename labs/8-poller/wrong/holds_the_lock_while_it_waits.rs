//! The G that serves the link waits for it under the lock of the state.
//! fails: connections, limits, link, timers, sleeps

// ANCHOR: serve
            let mut state = self.state.lock();
            let now = time::now::<Plat>();
            let has_more = state.receive(BATCH, now) | state.run_timers(BATCH, now);
            let until = state.sleep();
            if has_more {
                gmp_sched::yield_now::yield_now::<Plat>();
            } else {
                self.wake.wait_until(until);
            }
// ANCHOR_END: serve
