//! Names an animal that calls yield_now. Such a G yields, which is no preemption.
//! fails: preempted

// ANCHOR: answers
pub const WRONG_FUNCTION: &str = "spread";
pub const DEADLOCKED: &[&str] = &["cook", "waiter", "guest"];
pub const PREEMPTED: &str = "elk";
pub const BLOCKS: &str = "bee";
// ANCHOR_END: answers
