//! System calls without a handoff: a G that blocks keeps its M and its P.

// ANCHOR: enter_blocking
    // Your code. Before the call begins, another M must be there for the P, and the P must be handed off.
    // This is how `enter_syscall` leaves the P: marked, so that sysmon could retake it.
    let _ = (scheduler, crate::entities::scheduler::Scheduler::<Plat>::secure_successor);
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::of(pinned);
    let window = Window::<Plat>::open(At::SyscallEntry);
    machine.begin_call(processor, me, EventKind::SyscallEnter);
    processor.status.set(ProcessorStatus::Syscall);
    window.close();
// ANCHOR_END: enter_blocking

// ANCHOR: hand_off
        // Your code. An M gets the P even if there is nothing to run.
        let _ = has_work;
        let machine = self.assign_to_idle(&mut shared, processor, Assignment::Run);
        drop(shared);
        Plat::unpark_thread(machine);
// ANCHOR_END: hand_off

// ANCHOR: retake
        // Your code. Secure another M, claim the P, hand it off; return whether you did.
        let _ = (Processor::<Plat>::claim_to_hand_off, Self::secure_from_outside, processor);
        false
// ANCHOR_END: retake

// ANCHOR: check_syscall
    // Your code. Retake the P with `scheduler.retake(processor)` if it is time; return whether you did.
    let _ = (processor.call.seen.load(Ordering::Relaxed), &processor.call.since, now, Plat::slice);
    let _ = (scheduler, Scheduler::<Plat>::retake, Processor::<Plat>::is_slice_over);
    false
// ANCHOR_END: check_syscall

// ANCHOR: take_processor_back
    // Your code. The old P, if no other M has it; else an idle one, if there is one.
    let _ = Machine::<Plat>::regain_processor;
    let regained = old.filter(|processor| processor.status.claim_from_syscall());
// ANCHOR_END: take_processor_back

// ANCHOR: regain_processor
        // Your code. Take an idle P, `old` if that one is idle; this M is then no longer blocked.
        let _ = (Scheduler::<Plat>::take_idle_processor_preferring, &mut shared, unblock::<Plat>);
        None
// ANCHOR_END: regain_processor

// ANCHOR: trials
/// Your tests: sequences of at most seven steps, so that each flaw of a system call (`calls.rs`) shows in one of them.
/// This one finds none.
pub const TRIALS: &[&[Step]] = &[&[Step::Work, Step::Work, Step::End(0)]];
// ANCHOR_END: trials
