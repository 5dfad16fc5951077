//! The G that serves the link sleeps on, although something is due earlier than it knows.
//! fails: link, timers

// ANCHOR: finish
        self.wire.link.flush();
        false
// ANCHOR_END: finish
