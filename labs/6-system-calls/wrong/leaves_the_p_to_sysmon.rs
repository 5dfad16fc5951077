//! A blocking call only marks the P, as any system call does: sysmon will find out that it lasts.
//! fails: overlap, machines, return, nothing-lost, races

// ANCHOR: enter_blocking
    let _ = (scheduler, crate::entities::scheduler::Scheduler::<Plat>::secure_successor);
    let CurrentGoroutine { pinned, machine, processor, me } = CurrentGoroutine::of(pinned);
    let window = Window::<Plat>::open(At::SyscallEntry);
    machine.begin_call(processor, me, EventKind::SyscallEnter);
    processor.status.set(ProcessorStatus::Syscall);
    window.close();
// ANCHOR_END: enter_blocking
