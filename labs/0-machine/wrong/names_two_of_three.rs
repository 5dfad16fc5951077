//! Two of the three who wait in a circle.
//! fails: deadlock

// ANCHOR: answers
pub const WRONG_FUNCTION: &str = "spread";
pub const DEADLOCKED: &[&str] = &["cook", "waiter"];
pub const PREEMPTED: &str = "dog";
pub const BLOCKS: &str = "bee";
// ANCHOR_END: answers
