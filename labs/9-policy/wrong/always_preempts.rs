//! Each G that becomes runnable displaces the running one.
//! fails: alone

// ANCHOR: preempts
    fn preempts(&self, _ready: u64, _running: u64) -> bool {
        true
    }
// ANCHOR_END: preempts
