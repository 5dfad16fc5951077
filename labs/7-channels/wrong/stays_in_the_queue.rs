//! When its limit is over, the G goes on, but its waiter stays in the queue.
//! fails: limit

// ANCHOR: wait
        me.waiter.prepare(me, generation, slot.cast());
        self.header.queue(side).push_back(&me.waiter);
        let wait_for = WaitFor::new(self.header.wait_reason(side), &self.header);
        let ended_by = wait(caller, wait_for, generation, limit.copied(), || drop(held));
        window.close();
        if let Some(limit) = ended_by {
            // The timer or the context claimed the wait generation, so no other G accesses `slot` any more.
            return Err(Unmoved::Ended(limit.ended()));
        }
        if me.waiter.outcome.load(Ordering::Relaxed) == MOVED { Ok(()) } else { Err(Unmoved::Closed) }
// ANCHOR_END: wait
