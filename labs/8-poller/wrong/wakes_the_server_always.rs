//! Each call wakes the G that serves the link, which finds that it has nothing to do.
//! fails: sleeps

// ANCHOR: finish
        self.wire.link.flush();
        (self.is_stalled, self.asleep_until) = (false, self.first_due());
        true
// ANCHOR_END: finish
