//! No fence between the store of an M that goes idle and its second search.
//! fails: submit-and-idle, spinning, waker

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
            scheduler.put_idle_machine(&mut shared, self);
            // The M stops spinning in the same critical section, so that an M that enqueues on the global queue
            // afterwards sees that this M no longer spins.
            self.end_spinning();
        }
        let _ = fence;
// ANCHOR_END: go_idle
