//! A G that blocks hands its P off, to an M even if there is nothing to run, and returns by way of a queue. System calls
//! keep their P.

// ANCHOR: enter_blocking
    let pinned = scheduler.secure_successor(pinned)?;
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::of(pinned);
    let window = Window::<Plat>::open(At::SyscallEntry);
    machine.begin_call(processor, me, EventKind::HandOff);
    processor.counters.handoffs.add(1);
    scheduler.hand_off(processor);
    window.close();
// ANCHOR_END: enter_blocking

// ANCHOR: hand_off
        let _ = has_work;
        let machine = self.assign_to_idle(&mut shared, processor, Assignment::Run);
        drop(shared);
        Plat::unpark_thread(machine);
// ANCHOR_END: hand_off

// ANCHOR: retake
        let _ = (Processor::<Plat>::claim_to_hand_off, Self::secure_from_outside, processor);
        false
// ANCHOR_END: retake

// ANCHOR: check_syscall
    let _ = (processor.call.seen.load(Ordering::Relaxed), &processor.call.since, now, Plat::slice);
    let _ = (scheduler, Scheduler::<Plat>::retake, Processor::<Plat>::is_slice_over);
    false
// ANCHOR_END: check_syscall

// ANCHOR: take_processor_back
    let _ = Machine::<Plat>::regain_processor;
    let regained = old.filter(|processor| processor.status.claim_from_syscall());
// ANCHOR_END: take_processor_back

// ANCHOR: regain_processor
        let _ = (Scheduler::<Plat>::take_idle_processor_preferring, &mut shared, unblock::<Plat>);
        None
// ANCHOR_END: regain_processor
