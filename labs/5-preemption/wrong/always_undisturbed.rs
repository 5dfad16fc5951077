//! The running G always goes on until its slice is over.
//! fails: sleeper

// ANCHOR: undisturbed
    processor.request_slow_pick();
    if processor.undisturbed_until() <= Instant::NEVER {
        Plat::arm_timer(&pinned, processor, now + Plat::slice());
        return pinned;
    }
// ANCHOR_END: undisturbed
