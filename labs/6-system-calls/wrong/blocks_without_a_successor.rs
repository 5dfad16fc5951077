//! The M blocks without a thought of who will run its P.
//! fails: overlap, machines, return, nothing-lost, races

// ANCHOR: enter_blocking
    let _ = crate::entities::scheduler::Scheduler::<Plat>::secure_successor;
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::of(pinned);
    let window = Window::<Plat>::open(At::SyscallEntry);
    machine.begin_call(processor, me, EventKind::HandOff);
    processor.counters.handoffs.add(1);
    scheduler.hand_off(processor);
    window.close();
// ANCHOR_END: enter_blocking
