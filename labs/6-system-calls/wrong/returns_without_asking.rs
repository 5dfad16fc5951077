//! The M takes its old P as its own, although another M may have it.
//! fails: overlap, retake, keep, machines, return, nothing-lost, races

// ANCHOR: take_processor_back
    let _ = Machine::<Plat>::regain_processor;
    let regained = old.inspect(|processor| processor.status.set(ProcessorStatus::Running));
// ANCHOR_END: take_processor_back
