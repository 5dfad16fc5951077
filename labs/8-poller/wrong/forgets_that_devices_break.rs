//! A G that was woken because the device has broken looks for a result, finds none, and waits on.
//! fails: link

// ANCHOR: wait
        let mut state = self.state.lock_until(limit)?;
        loop {
            if let Some(result) = act(&mut state) {
                self.unlock(state);
                return result;
            }
            if state.finish() {
                self.wake.raise();
            }
            queue.wait_limited(&mut state, limit)?;
        }
// ANCHOR_END: wait
