//! The P is on its list before the M is: a waker finds a P, and no M to run it.
//! fails: park, submit-and-idle

// ANCHOR: go_idle
        {
            let mut shared = scheduler.shared.lock();
            if shared.has_work() || scheduler.is_stopping() {
                return;
            }
            if let Some(processor) = left {
                self.leave_idle(processor);
                scheduler.put_idle_processor(&mut shared, processor);
            }
            drop(shared);
            Plat::point_before_lock(Site::Idle);
            let mut shared = scheduler.shared.lock();
            scheduler.put_idle_machine(&mut shared, self);
            // The M stops spinning in the same critical section, so that an M that enqueues on the global queue
            // afterwards sees that this M no longer spins.
            self.end_spinning();
        }
        // Ordering: step 2 of Idle in idle.md; partner: the fence in `submitted`.
        fence(Ordering::SeqCst);
// ANCHOR_END: go_idle
