//! An interrupt does not ask whether the slice is over.
//! fails: turns, pair, sleeper

// ANCHOR: tick
    let has_to = machine.is_some_and(|machine| machine.scheduler().is_stopping());
    if earliest > now && !is_ready && processor.urgent.is_empty() {
        return NextTick { at: earliest.min(next_slice), gives_way: has_to };
    }
    processor.request_slow_pick();
    let undisturbed_until = processor.undisturbed_until();
    if undisturbed_until <= now || has_to {
        // The timer is armed again when the G gives way.
        return NextTick { at: next_slice, gives_way: true };
    }
    NextTick { at: undisturbed_until.min(next_slice), gives_way: false }
// ANCHOR_END: tick
