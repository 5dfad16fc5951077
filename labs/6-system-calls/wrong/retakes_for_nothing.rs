//! A P without work is retaken, too, although an idle P could take new work.
//! fails: keep

// ANCHOR: check_syscall
    let tick = processor.syscall_tick.load(Ordering::Relaxed);
    let call = &processor.call;
    if tick != call.seen.load(Ordering::Relaxed) {
        call.seen.store(tick, Ordering::Relaxed);
        call.since.store(now.as_nanos(), Ordering::Relaxed);
        // The call has begun after the last check. So the P is left to its M, except if the slice is over. Otherwise a
        // G that makes short calls in a loop would keep the P.
        if !processor.is_slice_over() {
            return false;
        }
    }
    let _ = Plat::slice;
    // If there is no thread for another M, the P is not retaken, and the next check tries again.
    scheduler.retake(processor)
// ANCHOR_END: check_syscall
