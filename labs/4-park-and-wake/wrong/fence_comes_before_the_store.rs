//! The fence of an M that goes idle comes before its store.
//! fails: submit-and-idle, spinning, waker

// ANCHOR: go_idle
        fence(Ordering::SeqCst);
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
