//! Each P in a system call is retaken at the next check, however short the call is.
//! fails: keep

// ANCHOR: check_syscall
    let _ = (now, &processor.call.seen, &processor.call.since, Plat::slice, Processor::<Plat>::is_slice_over);
    scheduler.retake(processor)
// ANCHOR_END: check_syscall
