//! No G gives way: whoever computes, does so until it is through.

// ANCHOR: check_slice
        // Your code. Has another slice begun since the last interrupt? If not, has this one lasted too long?
        let _ = (slice, tick, Instant::from_nanos, Plat::slice, Self::end_slice);
// ANCHOR_END: check_slice

// ANCHOR: tick
    // Your code. When is the timer to fire again, and does the G have to give way?
    let _ = (is_ready, earliest, Processor::<Plat>::request_slow_pick, Processor::<Plat>::undisturbed_until);
    NextTick { at: next_slice, gives_way: false }
// ANCHOR_END: tick

// ANCHOR: give_way
    // Your code. Which reason to give way comes first?
    let _ = (hooks::give_way_to_stop::<Plat>, preempt::<Plat>, displace_for_urgent::<Plat>);
    caller.pinned
// ANCHOR_END: give_way

// ANCHOR: preempt
    // Your code. Where does the G go?
    let _ = (is_urgent, requeue_urgent::<Plat>, requeue_global::<Plat>);
    leave(pinned, machine, me, None, Leave::GiveWay(PreemptReason::Slice), requeue_next)
// ANCHOR_END: preempt

// ANCHOR: undisturbed
    // Your code. May the urgent G displace this one now?
    let _ = Plat::arm_timer;
// ANCHOR_END: undisturbed

// ANCHOR: trials
/// Your tests: sequences of at most nine steps, so that each flaw of a preemption (`ticks.rs`) shows in one of them.
/// This one finds none.
pub const TRIALS: &[&[Step]] = &[&[Step::Ready, Step::HalfSlice, Step::Wait]];
// ANCHOR_END: trials
