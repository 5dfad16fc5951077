//! The global queue is looked at only when the local queue is empty: a P that always has work starves the others' Gs.
//! fails: global, specification

// ANCHOR: pick
    let _ = (is_check_due, check_global_queue::<Plat>);
    let _ = Processor::<Plat>::request_global_check;
    let scheduler = machine.scheduler();
    next_urgent(pinned, machine, processor)
        .or_else(|| processor.pop_local())
        .or_else(|| take_global_batch(scheduler, processor))
        .or_else(|| try_start_spinning(scheduler, machine, processor).then(|| steal(pinned, processor)).flatten())
// ANCHOR_END: pick
