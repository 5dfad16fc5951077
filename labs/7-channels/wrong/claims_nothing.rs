//! The waiter has no generation, so a partner ends a wait that its limit is ending, and readies the G a second time.
//! fails: limit, races

// ANCHOR: wait
        me.waiter.prepare(me, WaitGeneration::SOLE, slot.cast());
        self.header.queue(side).push_back(&me.waiter);
        let wait_for = WaitFor::new(self.header.wait_reason(side), &self.header);
        let ended_by = wait(caller, wait_for, generation, limit.copied(), || drop(held));
        window.close();
        if let Some(limit) = ended_by {
            self.header.lock(&Pinned::of_scheduler()).remove(side, &me.waiter);
            return Err(Unmoved::Ended(limit.ended()));
        }
        if me.waiter.outcome.load(Ordering::Relaxed) == MOVED { Ok(()) } else { Err(Unmoved::Closed) }
// ANCHOR_END: wait
