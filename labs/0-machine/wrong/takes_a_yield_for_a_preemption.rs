//! The animal gives way because it calls yield_now, and not because its slice is over.
//! fails: preempted

// ANCHOR: answers
pub const WRONG_FUNCTION: &str = "spread";
pub const DEADLOCKED: &[&str] = &["cook", "waiter", "guest"];
pub const PREEMPTED: &str = "elk";
pub const BLOCKS: &str = "bee";
// ANCHOR_END: answers
