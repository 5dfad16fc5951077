//! The G that serves the link never waits.
//! fails: timers, sleeps

// ANCHOR: serve
            let mut state = self.state.lock();
            let now = time::now::<Plat>();
            state.receive(BATCH, now);
            state.run_timers(BATCH, now);
            state.sleep();
            drop(state);
            gmp_sched::yield_now::yield_now::<Plat>();
// ANCHOR_END: serve
