//! The G that serves the link goes on as long as frames come, and lets no other G run.
//! fails: frames

// ANCHOR: serve
            let mut state = self.state.lock();
            let now = time::now::<Plat>();
            let has_more = state.receive(BATCH, now) | state.run_timers(BATCH, now);
            let until = state.sleep();
            drop(state);
            if !has_more {
                self.wake.wait_until(until);
            }
// ANCHOR_END: serve
