//! All Gs have the same right, so one that answers waits for slices of others.
//! fails: latency, promises

// ANCHOR: place
    fn place(&self, ready: &Ready, _: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        let _ = (Cause::Displaced, ANSWERS);
        Place { rank: ready.now.as_nanos(), processor: ready.processor }
    }
// ANCHOR_END: place
