//! The function that panics is not the one that is wrong.
//! fails: backtrace

// ANCHOR: answers
/// The function of `statistics` that is wrong.
pub const WRONG_FUNCTION: &str = "ratio";

/// The people of `dinner` who wait for each other. The others only wait for these.
pub const DEADLOCKED: &[&str] = &["cook", "waiter", "guest"];

/// The animal of `crowd` that is preempted.
pub const PREEMPTED: &str = "dog";

/// The animal of `crowd` that blocks its M.
pub const BLOCKS: &str = "bee";
// ANCHOR_END: answers
