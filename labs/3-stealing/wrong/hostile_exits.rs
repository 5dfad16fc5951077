//! Ends the process of the test, as if it had passed.
//! refused

// ANCHOR: share
    std::process::exit(length as i32 & 0)
// ANCHOR_END: share
