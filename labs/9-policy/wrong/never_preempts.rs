//! A G that answers waits until the slice of another is over.
//! fails: latency

// ANCHOR: preempts
    fn preempts(&self, _ready: u64, _running: u64) -> bool {
        false
    }
// ANCHOR_END: preempts
