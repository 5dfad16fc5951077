//! A G whose slice is over goes to runnext, so it runs next.
//! fails: turns, pair, sleeper

// ANCHOR: preempt
    let _ = (is_urgent, requeue_urgent::<Plat>, requeue_global::<Plat>);
    leave(pinned, machine, me, None, Leave::GiveWay(PreemptReason::Slice), requeue_next)
// ANCHOR_END: preempt
