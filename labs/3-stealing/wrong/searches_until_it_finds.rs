//! The thief goes on until it finds something. When all Gs wait, no M ever goes idle.
//! fails: specification

// ANCHOR: steal
    let processors = pinned.machine().scheduler().processors();
    loop {
        for round in 0..=Plat::repetitions(EARLY_ROUNDS) {
            for index in steal_order(processors.len(), processor.random()) {
                let victim = &processors[index];
                if core::ptr::eq(victim, processor) {
                    continue;
                }
                let found = steal_from(pinned, processor, victim, round == EARLY_ROUNDS);
                if found.is_some() {
                    processor.counters.steals.add(1);
                    return found;
                }
            }
        }
        processor.counters.steal_misses.add(1);
    }
// ANCHOR_END: steal
