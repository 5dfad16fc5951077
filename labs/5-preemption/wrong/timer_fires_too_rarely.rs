//! The next interrupt comes after ten slices.
//! fails: turns, pair, sleeper, world

// ANCHOR: tick
    let next_slice = now + 10 * Plat::slice();
    let has_to = processor.is_slice_over() || machine.is_some_and(|machine| machine.scheduler().is_stopping());
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
