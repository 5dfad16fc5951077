//! A wait goes on after its limit.
//! fails: limits

// ANCHOR: wait
        let mut state = self.state.lock_until(limit)?;
        loop {
            state.check_link()?;
            let result = act(&mut state);
            if state.finish() {
                self.wake.raise();
            }
            if let Some(result) = result {
                return result;
            }
            queue.wait_limited(&mut state, Limit::NONE)?;
        }
// ANCHOR_END: wait
