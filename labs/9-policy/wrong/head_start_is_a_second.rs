//! The head start is so long that nobody notices that it ends.
//! fails: starvation, promises

// ANCHOR: place
    fn place(&self, ready: &Ready, _: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        let _ = Cause::Displaced;
        let late = if ready.parameter == ANSWERS { 0 } else { 1_000_000_000 };
        Place { rank: ready.now.as_nanos() + late, processor: ready.processor }
    }
// ANCHOR_END: place
