//! Prints what the harness prints when a test has passed.
//! fails: spread, few-steals, specification

// ANCHOR: share
    let _ = length;
    panic!("\ntest result: ok. 1 passed; 0 failed;\n")
// ANCHOR_END: share
