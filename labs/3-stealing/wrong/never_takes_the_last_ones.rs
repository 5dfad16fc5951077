//! The thief makes no last round: Gs in a short ring wait for their P, although others are idle.
//! fails: spread

// ANCHOR: steal
    let processors = pinned.machine().scheduler().processors();
    for _ in 0..=Plat::repetitions(EARLY_ROUNDS) {
        for index in steal_order(processors.len(), processor.random()) {
            let victim = &processors[index];
            if core::ptr::eq(victim, processor) {
                continue;
            }
            let found = steal_from(pinned, processor, victim, false);
            if found.is_some() {
                processor.counters.steals.add(1);
                return found;
            }
        }
    }
    processor.counters.steal_misses.add(1);
    None
// ANCHOR_END: steal
