//! The G that serves the link looks every 10 ms, as if there were no interrupts.
//! fails: frames, link, sleeps

// ANCHOR: serve
            let mut state = self.state.lock();
            let now = time::now::<Plat>();
            let has_more = state.receive(BATCH, now) | state.run_timers(BATCH, now);
            state.sleep();
            drop(state);
            if has_more {
                gmp_sched::yield_now::yield_now::<Plat>();
            } else {
                gmp_sched::sleep::sleep::<Plat>(core::time::Duration::from_millis(10));
            }
// ANCHOR_END: serve
