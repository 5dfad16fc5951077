//! After the wait, the clock says whether its limit has ended it: also if a partner was faster, and the value has moved.
//! fails: limit

// ANCHOR: wait
        me.waiter.prepare(me, generation, slot.cast());
        self.header.queue(side).push_back(&me.waiter);
        let wait_for = WaitFor::new(self.header.wait_reason(side), &self.header);
        let _ = wait(caller, wait_for, generation, limit.copied(), || drop(held));
        window.close();
        if let Some(error) = patience.err() {
            self.header.lock(&Pinned::of_scheduler()).remove(side, &me.waiter);
            return Err(Unmoved::Ended(error));
        }
        if me.waiter.outcome.load(Ordering::Relaxed) == MOVED { Ok(()) } else { Err(Unmoved::Closed) }
// ANCHOR_END: wait
