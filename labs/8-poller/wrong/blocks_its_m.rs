//! A G that has to wait keeps its M, and hands its P to another one.
//! fails: connections, limits, timers, sleeps

// ANCHOR: wait
        let _ = queue;
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
            gmp_sched::syscall::blocking::<Plat, _>(Plat::relax);
        }
// ANCHOR_END: wait
