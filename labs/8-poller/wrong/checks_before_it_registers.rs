//! Between the look at the state and the wait, the lock is free, so the readiness may come there and is lost.
//! fails: connections

// ANCHOR: wait
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
            let mut state = self.state.lock_until(limit)?;
            queue.wait_limited(&mut state, limit)?;
        }
// ANCHOR_END: wait
