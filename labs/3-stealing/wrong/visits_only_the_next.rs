//! The thief visits only the P after its own: where that one has no work, the thief gives up.
//! fails: spread

// ANCHOR: steal
    let _ = steal_order(1, 0).count();
    let processors = pinned.machine().scheduler().processors();
    let own = processors.iter().position(|other| core::ptr::eq(other, processor)).unwrap_or(0);
    for round in 0..=Plat::repetitions(EARLY_ROUNDS) {
        let victim = &processors[(own + 1) % processors.len()];
        if !core::ptr::eq(victim, processor) {
            let found = steal_from(pinned, processor, victim, round == Plat::repetitions(EARLY_ROUNDS));
            if found.is_some() {
                processor.counters.steals.add(1);
                return found;
            }
        }
    }
    processor.counters.steal_misses.add(1);
    None
// ANCHOR_END: steal
