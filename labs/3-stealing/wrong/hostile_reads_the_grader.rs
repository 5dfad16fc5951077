//! Puts a file of the grader into its message.
//! refused

// ANCHOR: share
    let _ = length;
    panic!(include_str!("../../../labs/3-stealing/lab.toml"))
// ANCHOR_END: share
