//! An M is woken for each G, and so nobody has to rely on an M that searches. There is no fence, which only the processor notices.

// ANCHOR: parked
        match commit(pinned, me) {
            true => {}
            false => ready_again(pinned, me),
        }
// ANCHOR_END: parked

// ANCHOR: submitted
        let _ = (fence, Plat::point, Site::Idle, Self::wake_processor);
        if self.idle_processors.load(Ordering::SeqCst) != 0 {
            self.spinning.fetch_add(1, Ordering::SeqCst);
            self.pass_search_on();
        }
// ANCHOR_END: submitted

// ANCHOR: none_idle
            self.spinning.fetch_sub(1, Ordering::SeqCst);
            return;
// ANCHOR_END: none_idle

// ANCHOR: stop_spinning
    machine.end_spinning();
    machine.scheduler().submitted();
// ANCHOR_END: stop_spinning

// ANCHOR: go_idle
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
                let _ = must_recheck;
                self.wake_if_work_is_visible();
// ANCHOR_END: assigned
