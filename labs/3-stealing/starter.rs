//! The pick without the global queue's turn and without stealing: each P runs what is in its own queue.

// ANCHOR: pick
    // Your code. Add what is missing between these three steps and after them; the table above has the order.
    let _ = (is_check_due, check_global_queue::<Plat>, try_start_spinning::<Plat>, steal::<Plat>);
    let _ = Processor::<Plat>::request_global_check;
    let scheduler = machine.scheduler();
    next_urgent(pinned, machine, processor)
        .or_else(|| processor.pop_local())
        .or_else(|| take_global_batch(scheduler, processor))
// ANCHOR_END: pick

// ANCHOR: share
    // Your code. How many of `length` Gs does a thief take?
    let _ = length;
    0
// ANCHOR_END: share

// ANCHOR: steal
    // Your code. Visit the other Ps; count a theft in `processor.counters.steals` and a search in vain in `steal_misses`.
    let _ = (pinned, processor, EARLY_ROUNDS, Plat::repetitions, steal_order(1, 0).count(), steal_from::<Plat>);
    None
// ANCHOR_END: steal

// ANCHOR: trials
/// Your tests: sequences of at most nine steps, so that each flaw of a pick or of a thief (`picks.rs`) shows in one of
/// them. This one finds none.
pub const TRIALS: &[&[Step]] = &[&[Step::Ready(0), Step::Pick(0)]];
// ANCHOR_END: trials
