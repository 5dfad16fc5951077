//! The limit is that of the wait in the queue alone: who has the lock, and was preempted, delays the call.
//! fails: limits

// ANCHOR: wait
        let mut state = self.state.lock();
        loop {
            state.check_link()?;
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
