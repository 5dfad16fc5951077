//! At the global queue's turn, the P takes what is there, and if nothing is, it takes nothing at all.
//! fails: specification

// ANCHOR: pick
    let scheduler = machine.scheduler();
    let urgent = next_urgent(pinned, machine, processor);
    if urgent.is_some() {
        if is_check_due {
            processor.request_global_check();
        }
        return urgent;
    }
    if is_check_due {
        return check_global_queue(scheduler, processor);
    }
    processor
        .pop_local()
        .or_else(|| take_global_batch(scheduler, processor))
        .or_else(|| try_start_spinning(scheduler, machine, processor).then(|| steal(pinned, processor)).flatten())
// ANCHOR_END: pick
