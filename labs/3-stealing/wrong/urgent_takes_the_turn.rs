//! A turn of the global queue is lost if an urgent G is there.
//! fails: specification

// ANCHOR: pick
    let _ = Processor::<Plat>::request_global_check;
    let scheduler = machine.scheduler();
    next_urgent(pinned, machine, processor)
        .or_else(|| is_check_due.then(|| check_global_queue(scheduler, processor)).flatten())
        .or_else(|| processor.pop_local())
        .or_else(|| take_global_batch(scheduler, processor))
        .or_else(|| try_start_spinning(scheduler, machine, processor).then(|| steal(pinned, processor)).flatten())
// ANCHOR_END: pick
