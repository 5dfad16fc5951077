//! sysmon does not note which call it has seen, so each call looks new.
//! fails: retake, keep, nothing-lost

// ANCHOR: check_syscall
    let tick = processor.syscall_tick.load(Ordering::Relaxed);
    let call = &processor.call;
    if tick != call.seen.load(Ordering::Relaxed) {
        call.since.store(now.as_nanos(), Ordering::Relaxed);
        let _ = Processor::<Plat>::is_slice_over;
        return false;
    }
    let since = Instant::from_nanos(call.since.load(Ordering::Relaxed));
    let others_can_take_work =
        scheduler.idle_processors.load(Ordering::Relaxed) != 0 || scheduler.spinning.load(Ordering::Relaxed) != 0;
    if !processor.has_work() && others_can_take_work && now - since < Plat::slice() {
        return false;
    }
    // If there is no thread for another M, the P is not retaken, and the next check tries again.
    scheduler.retake(processor)
// ANCHOR_END: check_syscall
