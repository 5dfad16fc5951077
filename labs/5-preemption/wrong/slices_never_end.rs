//! The slice counts only if something urgent waits.
//! fails: turns, pair, sleeper

// ANCHOR: give_way
    let _ = preempt::<Plat>;
    if machine.scheduler().is_stopping() {
        return hooks::give_way_to_stop(caller);
    }
    displace_for_urgent(caller)
// ANCHOR_END: give_way
