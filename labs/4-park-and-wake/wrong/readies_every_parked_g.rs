//! Each G that parks is readied at once, as if it polled.
//! fails: park, wakes, few-wakes

// ANCHOR: parked
        commit(pinned, me);
        ready_again(pinned, me);
// ANCHOR_END: parked
