//! A spinning M that finds work wakes another while it still counts as spinning, so nobody is woken.
//! fails: wakes, spinning

// ANCHOR: stop_spinning
    if machine.is_spinning() {
        machine.scheduler().wake_processor();
        machine.end_spinning();
    }
// ANCHOR_END: stop_spinning
