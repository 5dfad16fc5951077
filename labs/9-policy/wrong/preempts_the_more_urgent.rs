//! The comparison is the wrong way round.
//! fails: latency, alone

// ANCHOR: preempts
    fn preempts(&self, ready: u64, running: u64) -> bool {
        ready > running
    }
// ANCHOR_END: preempts
