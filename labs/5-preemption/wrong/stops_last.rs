//! A G gives way to its slice and to urgent Gs before the world, and to the world not at all.
//! fails: world

// ANCHOR: give_way
    let _ = hooks::give_way_to_stop::<Plat>;
    if processor.is_slice_over() {
        return preempt(caller);
    }
    displace_for_urgent(caller)
// ANCHOR_END: give_way
