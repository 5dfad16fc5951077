//! The running G may be displaced only while it has the right to go on.
//! fails: sleeper, progress, world

// ANCHOR: undisturbed
    if processor.undisturbed_until() <= now {
        processor.request_slow_pick();
        Plat::arm_timer(&pinned, processor, processor.undisturbed_until());
        return pinned;
    }
// ANCHOR_END: undisturbed
