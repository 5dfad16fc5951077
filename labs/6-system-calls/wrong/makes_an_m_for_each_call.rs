//! Each blocking call makes a new M, whether or not one is idle.
//! fails: machines, races

// ANCHOR: enter_blocking
    drop(pinned);
    scheduler.add_machine()?;
    let pinned = scheduler.secure_successor(Pinned::of_scheduler())?;
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::of(pinned);
    let window = Window::<Plat>::open(At::SyscallEntry);
    machine.begin_call(processor, me, EventKind::HandOff);
    processor.counters.handoffs.add(1);
    scheduler.hand_off(processor);
    window.close();
// ANCHOR_END: enter_blocking
