//! Names an animal that calls yield_now. Such a G yields, which is no preemption.
//! fails: preempted

// ANCHOR: answers
/// The function of `statistics` that is wrong.
pub const WRONG_FUNCTION: &str = "spread";

/// The people of `dinner` who wait for each other. The others only wait for these.
pub const DEADLOCKED: &[&str] = &["cook", "waiter", "guest"];

/// The animal of `crowd` that is preempted.
pub const PREEMPTED: &str = "elk";

/// The animal of `crowd` that blocks its M.
pub const BLOCKS: &str = "bee";
// ANCHOR_END: answers
