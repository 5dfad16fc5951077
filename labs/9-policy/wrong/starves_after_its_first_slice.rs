//! Who has begun has had its share: after its first slice, a G that computes gets only what nobody wants.
//! fails: starvation, promises

// ANCHOR: place
    fn place(&self, ready: &Ready, processors: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        let behind = match ready.cause {
            _ if ready.parameter == ANSWERS => 0,
            Cause::Spawned => 100_000_000,
            _ => 1 << 62,
        };
        let rank = if ready.cause == Cause::Displaced { ready.rank } else { ready.now.as_nanos() + behind };
        let here = ready.processor;
        if ready.parameter != ANSWERS {
            return Place { rank, processor: here };
        }
        let urgency = |state: &ProcessorState| state.running.unwrap_or(u64::MAX).min(state.first);
        let calmest = processors.max_by_key(|state| (urgency(state), state.id == here));
        Place { rank, processor: calmest.map_or(here, |state| state.id) }
    }
// ANCHOR_END: place
