//! All six wait, but three of them only for the others.
//! fails: deadlock

// ANCHOR: answers
pub const WRONG_FUNCTION: &str = "spread";
pub const DEADLOCKED: &[&str] = &["cook", "critic", "waiter", "host", "guest", "cashier"];
pub const PREEMPTED: &str = "dog";
pub const BLOCKS: &str = "bee";
// ANCHOR_END: answers
