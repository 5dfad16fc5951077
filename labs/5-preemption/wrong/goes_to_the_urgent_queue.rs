//! A G whose slice is over goes to the urgent Gs, so it runs before all others.
//! fails: turns, pair

// ANCHOR: preempt
    let _ = (is_urgent, requeue_global::<Plat>);
    leave(pinned, machine, me, None, Leave::GiveWay(PreemptReason::Slice), requeue_urgent)
// ANCHOR_END: preempt
