//! The G that serves the link wakes for frames, but not for what is due.
//! fails: connections, timers

// ANCHOR: serve
            let mut state = self.state.lock();
            let now = time::now::<Plat>();
            let has_more = state.receive(BATCH, now) | state.run_timers(BATCH, now);
            state.sleep();
            drop(state);
            if has_more {
                gmp_sched::yield_now::yield_now::<Plat>();
            } else {
                self.wake.wait_until(gmp_sched::time::Instant::NEVER);
            }
// ANCHOR_END: serve
