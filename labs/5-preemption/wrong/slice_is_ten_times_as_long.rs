//! The wrong unit.
//! fails: turns, pair, sleeper

// ANCHOR: check_slice
        // Ordering: Acquire; partner: the Release in `CurrentSlice::begin`.
        if slice.seen.load(Ordering::Relaxed) != tick {
            slice.begin(tick, now);
        } else if now - Instant::from_nanos(slice.since.load(Ordering::Relaxed)) >= 10 * Plat::slice() {
            self.end_slice(tick);
        }
// ANCHOR_END: check_slice
