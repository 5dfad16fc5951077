//! Each urgent G displaces the running one at once.
//! fails: progress

// ANCHOR: tick
    let has_to = processor.is_slice_over() || machine.is_some_and(|machine| machine.scheduler().is_stopping());
    let is_urgent = earliest <= now || is_ready || !processor.urgent.is_empty();
    if is_urgent {
        processor.request_slow_pick();
    }
    NextTick { at: earliest.min(next_slice), gives_way: has_to || is_urgent }
// ANCHOR_END: tick

// ANCHOR: undisturbed
    let _ = (Plat::arm_timer, Processor::<Plat>::undisturbed_until, Processor::<Plat>::request_slow_pick);
// ANCHOR_END: undisturbed
