//! Each interrupt begins a slice, so none is ever over.
//! fails: turns, pair, sleeper

// ANCHOR: check_slice
        slice.begin(tick, now);
        let _ = (Instant::from_nanos, Plat::slice, Self::end_slice);
// ANCHOR_END: check_slice
