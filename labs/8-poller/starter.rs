//! Nobody is told that a device is ready: a G that waits for one goes on only when its limit is over. The network is
//! silent.

// ANCHOR: raise
        // Your code. In which states does a G wait? Which of them may this function change?
        let _ = (WAITING, generation_of, Scheduler::<Plat>::put_raised);
        self.word.swap(RAISED, Ordering::AcqRel);
// ANCHOR_END: raise

// ANCHOR: commit
        // Your code. Has the signal been raised since `announce`?
        end.arm(pinned, me, generation);
        true
// ANCHOR_END: commit

// ANCHOR: end
        // Your code. What has ended the wait? Is a raise left for the next one?
        let _ = DELIVERED;
        self.word.swap(EMPTY, Ordering::AcqRel);
        Some(false)
// ANCHOR_END: end

// ANCHOR: wake_poller
        // Your code. Who looks at the raised list now?
        let _ = (fence, Ordering::SeqCst, Site::DeviceSignal, Self::preempt_to_poll);
// ANCHOR_END: wake_poller

// ANCHOR: serve
            // Your code. What has arrived, what is due, and who may use the state meanwhile?
            let _ = (BATCH, State::<Plat>::receive, State::<Plat>::run_timers);
            let until = self.state.lock().sleep();
            self.wake.wait_until(until);
// ANCHOR_END: serve

// ANCHOR: wait
        // Your code. What if there is no result yet?
        let _ = |state: &mut MutexGuard<'_, State<Plat>, Plat>| queue.wait_limited(state, limit).is_ok();
        let mut state = self.state.lock_until(limit)?;
        state.check_link()?;
        act(&mut state).unwrap_or(Err(NetError::TimedOut))
// ANCHOR_END: wait

// ANCHOR: finish
        // Your code. Does the G that serves the link sleep for too long?
        let _ = self.is_stalled;
        false
// ANCHOR_END: finish

// ANCHOR: trials
/// Your tests: schedules of at most nine steps, so that each flaw of a signal (`signals.rs`) does harm in one of them.
/// In this one the G waits, and that is all.
pub const TRIALS: &[&[Party]] = &[&[Party::G, Party::G, Party::Commit, Party::Commit]];
// ANCHOR_END: trials
