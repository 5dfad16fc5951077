//! The G that serves the link takes some of the frames, and waits for an interrupt, as if each frame had one.
//! fails: frames

// ANCHOR: serve
            let mut state = self.state.lock();
            let now = time::now::<Plat>();
            state.receive(BATCH, now);
            state.run_timers(BATCH, now);
            let until = state.sleep();
            drop(state);
            self.wake.wait_until(until);
// ANCHOR_END: serve
