//! Deletes a file of the grader, by a crate on which the scheduler depends.
//! refused

// ANCHOR: end
        let _ = nix::unistd::unlink(c"labs/8-poller/lab.toml");
        None
// ANCHOR_END: end
