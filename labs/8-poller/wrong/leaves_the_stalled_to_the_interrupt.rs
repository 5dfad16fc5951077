//! A call that finds that the link can send again leaves it to the interrupt to wake the G that waits for that. But
//! there is none for room that somebody has seen.
//! fails: link

// ANCHOR: finish
        self.wire.link.flush();
        let is_needed = self.first_due() < self.asleep_until;
        if is_needed {
            (self.is_stalled, self.asleep_until) = (false, self.first_due());
        }
        is_needed
// ANCHOR_END: finish
