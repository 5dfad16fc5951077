//! All six wait, but three of them only for the others.
//! fails: deadlock

// ANCHOR: answers
/// The function of `statistics` that is wrong.
pub const WRONG_FUNCTION: &str = "spread";

/// The people of `dinner` who wait for each other. The others only wait for these.
pub const DEADLOCKED: &[&str] = &["cook", "critic", "waiter", "host", "guest", "cashier"];

/// The animal of `crowd` that is preempted.
pub const PREEMPTED: &str = "dog";

/// The animal of `crowd` that blocks its M.
pub const BLOCKS: &str = "bee";
// ANCHOR_END: answers
