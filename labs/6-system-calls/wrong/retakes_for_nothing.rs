//! A P without work is retaken, too, although an idle P could take new work.
//! fails: keep

// ANCHOR: check_syscall
    let tick = processor.syscall_tick.load(Ordering::Relaxed);
    let call = &processor.call;
    if tick != call.seen.load(Ordering::Relaxed) {
        call.seen.store(tick, Ordering::Relaxed);
        call.since.store(now.as_nanos(), Ordering::Relaxed);
        if !processor.is_slice_over() {
            return false;
        }
    }
    let _ = Plat::slice;
    scheduler.retake(processor)
// ANCHOR_END: check_syscall
