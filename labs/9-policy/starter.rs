//! The oldest G runs first, and all Gs wait on one P.

// ANCHOR: place
    /// Your code. Which rank does a G have, and where does it wait?
    fn place(&self, ready: &Ready, processors: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        let _ = (Cause::Displaced, ANSWERS);
        let first = processors.next();
        Place { rank: ready.goroutine.get(), processor: first.map_or(ready.processor, |state| state.id) }
    }
// ANCHOR_END: place

// ANCHOR: preempts
    /// Your code. Does the running G give way?
    fn preempts(&self, _ready: u64, _running: u64) -> bool {
        false
    }
// ANCHOR_END: preempts

// ANCHOR: steal
    /// Your code. Whom does a P without work rob, and of how many Gs?
    fn steal(&self, victims: &mut dyn Iterator<Item = ProcessorState>) -> Option<Theft> {
        victims.next().map(|victim| Theft { from: victim.id, count: 1 })
    }
// ANCHOR_END: steal

// ANCHOR: model
/// Your code. Whether a P may run `begun` while `others` wait in its queue. If not, the text is the promise that would be broken.
pub fn allows(_begun: Waiting, _others: &[Waiting]) -> Result<(), &'static str> {
    let _ = Duration::from_millis(50);
    Ok(())
}
// ANCHOR_END: model
