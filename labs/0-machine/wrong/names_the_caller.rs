//! The function that called the one that panicked is right: its own caller is not.
//! fails: backtrace

// ANCHOR: answers
pub const WRONG_FUNCTION: &str = "mean";
pub const DEADLOCKED: &[&str] = &["cook", "waiter", "guest"];
pub const PREEMPTED: &str = "dog";
pub const BLOCKS: &str = "bee";
// ANCHOR_END: answers
