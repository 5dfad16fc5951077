//! The animal sleeps, which takes neither an M nor a P.
//! fails: blocks

// ANCHOR: answers
pub const WRONG_FUNCTION: &str = "spread";
pub const DEADLOCKED: &[&str] = &["cook", "waiter", "guest"];
pub const PREEMPTED: &str = "dog";
pub const BLOCKS: &str = "ant";
// ANCHOR_END: answers
