//! The one that computes blocks nobody, and the one that blocks is not preempted.
//! fails: preempted, blocks

// ANCHOR: answers
pub const WRONG_FUNCTION: &str = "spread";
pub const DEADLOCKED: &[&str] = &["cook", "waiter", "guest"];
pub const PREEMPTED: &str = "bee";
pub const BLOCKS: &str = "dog";
// ANCHOR_END: answers
