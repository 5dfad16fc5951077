//! A sender that a close has woken says that its value was sent.
//! fails: close, programs, races

// ANCHOR: wait
        me.waiter.prepare(me, generation, slot.cast());
        self.header.queue(side).push_back(&me.waiter);
        let wait_for = WaitFor::new(self.header.wait_reason(side), &self.header);
        let ended_by = wait(caller, wait_for, generation, limit.copied(), || drop(held));
        window.close();
        if let Some(limit) = ended_by {
            // The timer or the context claimed the wait generation, so no other G accesses `slot` any more.
            let pinned = Pinned::of_scheduler();
            self.header.lock(&pinned).remove(side, &me.waiter);
            return Err(Unmoved::Ended(limit.ended()));
        }
        let moved = me.waiter.outcome.load(Ordering::Relaxed) == MOVED;
        if side == Side::Send || moved { Ok(()) } else { Err(Unmoved::Closed) }
// ANCHOR_END: wait
