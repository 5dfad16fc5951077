//! The P is handed off first. If no M is idle, there is nobody who could take it.
//! fails: overlap, machines, nothing-lost, races

// ANCHOR: enter_blocking
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::of(pinned);
    let window = Window::<Plat>::open(At::SyscallEntry);
    machine.begin_call(processor, me, EventKind::HandOff);
    processor.counters.handoffs.add(1);
    scheduler.hand_off(processor);
    window.close();
    let pinned = scheduler.secure_successor(pinned)?;
// ANCHOR_END: enter_blocking
