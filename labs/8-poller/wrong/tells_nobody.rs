//! Whoever picks next finds the raise, and nobody is told of it.
//! fails: raise, deadline, no-m, busy, who-polls

// ANCHOR: wake_poller
        let _ = (fence, Ordering::SeqCst, Site::DeviceSignal, Self::preempt_to_poll);
// ANCHOR_END: wake_poller
