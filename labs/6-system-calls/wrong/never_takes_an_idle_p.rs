//! The M wants its old P or none. Its G displaces another one, although a P is idle.
//! fails: machines, return

// ANCHOR: take_processor_back
    let _ = Machine::<Plat>::regain_processor;
    let regained = old.filter(|processor| processor.status.claim_from_syscall());
// ANCHOR_END: take_processor_back
