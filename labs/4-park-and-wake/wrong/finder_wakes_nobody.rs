//! A spinning M that finds work wakes no other, although submitters relied on it.
//! fails: wakes, spinning

// ANCHOR: stop_spinning
    machine.end_spinning();
// ANCHOR_END: stop_spinning
