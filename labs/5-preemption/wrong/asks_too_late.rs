//! The interrupt sees that the slice is over, and lets the G give way at the next one.
//! fails: turns, pair, sleeper

// ANCHOR: tick
    let has_to = processor.is_slice_over() || machine.is_some_and(|machine| machine.scheduler().is_stopping());
    if earliest > now && !is_ready && processor.urgent.is_empty() {
        return NextTick { at: earliest.min(next_slice), gives_way: false };
    }
    processor.request_slow_pick();
    let undisturbed_until = processor.undisturbed_until();
    if undisturbed_until <= now || has_to {
        // The timer is armed again when the G gives way.
        return NextTick { at: next_slice, gives_way: true };
    }
    NextTick { at: undisturbed_until.min(next_slice), gives_way: false }
// ANCHOR_END: tick
