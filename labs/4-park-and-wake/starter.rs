//! Ms wake nobody: work waits until the M that published it, or a timer, or a device, comes to it.

// ANCHOR: parked
        // Your code. What if the commit returns false?
        let _ = (ready_again::<Plat>, commit(pinned, me));
// ANCHOR_END: parked

// ANCHOR: submitted
        // Your code. Wake an M if a P is idle and no M is spinning.
        let _ = (fence, Plat::point, Site::Idle, Self::wake_processor);
// ANCHOR_END: submitted

// ANCHOR: none_idle
            // Your code. The caller counts as spinning, and no P is idle.
            self.spinning.fetch_sub(1, Ordering::SeqCst);
            return;
// ANCHOR_END: none_idle

// ANCHOR: stop_spinning
    // Your code. The M has found work; is there more?
    machine.end_spinning();
// ANCHOR_END: stop_spinning

// ANCHOR: go_idle
        // Your code. What is missing, and in which order?
        let _ = fence;
        {
            let mut shared = scheduler.shared.lock();
            if shared.has_work() || scheduler.is_stopping() {
                return;
            }
            if let Some(processor) = left {
                self.leave_idle(processor);
                scheduler.put_idle_processor(&mut shared, processor);
            }
            scheduler.put_idle_machine(&mut shared, self);
            self.end_spinning();
        }
// ANCHOR_END: go_idle

// ANCHOR: assigned
                // Your code. The M has a P now. Had it searched a second time?
                let _ = (must_recheck, Self::wake_if_work_is_visible);
// ANCHOR_END: assigned

// ANCHOR: trials
/// Your tests: schedules of at most nine steps, so that each flaw of a wakeup (`wakes.rs`) does harm in one of them. In
/// this one, M2 goes idle, and then M1 does all it has to do.
pub const TRIALS: &[(Scene, &[M])] = &[(Scene::Idles, &[M::M2, M::M2, M::M2])];
// ANCHOR_END: trials
