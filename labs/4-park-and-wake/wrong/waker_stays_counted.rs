//! A waker that finds no idle P counts as spinning for ever.
//! fails: submit-and-idle, spinning, assigned, waker

// ANCHOR: none_idle
            return;
// ANCHOR_END: none_idle
