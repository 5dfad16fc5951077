//! The M takes the first P of the idle list, although its old one is idle.
//! fails: return

// ANCHOR: regain_processor
        let processor = self.scheduler().take_idle_processor(&mut shared)?;
        unblock(self, &mut shared);
        processor.set_holder(self);
        Some(processor)
// ANCHOR_END: regain_processor
