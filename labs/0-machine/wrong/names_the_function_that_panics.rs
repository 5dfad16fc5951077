//! The function that panics is not the one that is wrong.
//! fails: backtrace

// ANCHOR: answers
pub const WRONG_FUNCTION: &str = "ratio";
pub const DEADLOCKED: &[&str] = &["cook", "waiter", "guest"];
pub const PREEMPTED: &str = "dog";
pub const BLOCKS: &str = "bee";
// ANCHOR_END: answers
