//! The answer has come before the G was parked, and nobody readies the G.
//! fails: park, wakes

// ANCHOR: parked
        let _ = (ready_again::<Plat>, commit(pinned, me));
// ANCHOR_END: parked
