//! An urgent G does not displace the running one.
//! fails: sleeper

// ANCHOR: tick
    let _ = (is_ready, Processor::<Plat>::undisturbed_until, Processor::<Plat>::request_slow_pick);
    let has_to = processor.is_slice_over() || machine.is_some_and(|machine| machine.scheduler().is_stopping());
    NextTick { at: earliest.min(next_slice), gives_way: has_to }
// ANCHOR_END: tick
