//! A P without work waits for the global queue.
//! fails: spread, few-steals, specification

// ANCHOR: steal
    let _ = (pinned, EARLY_ROUNDS, Plat::repetitions, steal_order(1, 0).count(), steal_from::<Plat>);
    processor.counters.steal_misses.add(1);
    None
// ANCHOR_END: steal
