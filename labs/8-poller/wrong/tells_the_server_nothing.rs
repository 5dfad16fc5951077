//! A call that sends something does not tell the G that serves the link when it has to send it again.
//! fails: timers

// ANCHOR: wait
        let mut state = self.state.lock_until(limit)?;
        loop {
            state.check_link()?;
            let result = act(&mut state);
            state.finish();
            if let Some(result) = result {
                return result;
            }
            queue.wait_limited(&mut state, limit)?;
        }
// ANCHOR_END: wait
