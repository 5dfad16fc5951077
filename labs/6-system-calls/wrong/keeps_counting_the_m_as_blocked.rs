//! An M that gets an idle P stays counted as blocked, so there seem to be too few Ms.
//! fails: overlap, machines, return, nothing-lost, races

// ANCHOR: regain_processor
        let processor = self.scheduler().take_idle_processor_preferring(&mut shared, old)?;
        processor.set_holder(self);
        Some(processor)
// ANCHOR_END: regain_processor
