//! A G gives way at the end of its slice, and to nothing else: urgent Gs wait until then.

// ANCHOR: check_slice
        let has_begun = slice.seen.load(Ordering::Acquire) == tick;
        let age = now - Instant::from_nanos(slice.since.load(Ordering::Relaxed));
        match (has_begun, age >= Plat::slice()) {
            (false, _) => slice.begin(tick, now),
            (true, true) => self.end_slice(tick),
            (true, false) => {}
        }
// ANCHOR_END: check_slice

// ANCHOR: tick
    let _ = (is_ready, earliest, Processor::<Plat>::undisturbed_until);
    processor.request_slow_pick();
    NextTick { at: next_slice, gives_way: machine.is_some_and(must_give_way) }
// ANCHOR_END: tick

// ANCHOR: give_way
    let _ = displace_for_urgent::<Plat>;
    match (machine.scheduler().is_stopping(), processor.is_slice_over()) {
        (true, _) => hooks::give_way_to_stop(caller),
        (_, true) => preempt(caller),
        _ => caller.pinned,
    }
// ANCHOR_END: give_way

// ANCHOR: preempt
    let reason = Leave::GiveWay(PreemptReason::Slice);
    match is_urgent {
        true => leave(pinned, machine, me, None, reason, requeue_urgent),
        false => leave(pinned, machine, me, None, reason, requeue_global),
    }
// ANCHOR_END: preempt

// ANCHOR: undisturbed
    let _ = Plat::arm_timer;
// ANCHOR_END: undisturbed
