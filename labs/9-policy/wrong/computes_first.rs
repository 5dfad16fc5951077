//! The sign of the head start is wrong.
//! fails: latency, promises

// ANCHOR: place
    fn place(&self, ready: &Ready, _: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        let _ = Cause::Displaced;
        let late = if ready.parameter == ANSWERS { 100_000_000 } else { 0 };
        Place { rank: ready.now.as_nanos() + late, processor: ready.processor }
    }
// ANCHOR_END: place
