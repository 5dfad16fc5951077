//! A G that was woken takes for granted that there is something for it. Another one may have been faster.
//! fails: connections, limits, link

// ANCHOR: wait
        let mut state = self.state.lock_until(limit)?;
        state.check_link()?;
        let mut result = act(&mut state);
        if state.finish() {
            self.wake.raise();
        }
        if result.is_none() {
            queue.wait_limited(&mut state, limit)?;
            result = act(&mut state);
            if state.finish() {
                self.wake.raise();
            }
        }
        result.unwrap_or(Err(NetError::Other))
// ANCHOR_END: wait
