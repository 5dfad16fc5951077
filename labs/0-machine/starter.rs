//! A program that counts its arguments, and no answers.

// ANCHOR: program
fn main(arguments: &[&str]) -> i32 {
    // Your code. One G for each number, and the sum of what they return.
    println!("{} arguments", arguments.len());
    0
}
// ANCHOR_END: program

// ANCHOR: answers
/// The function of `statistics` that is wrong.
pub const WRONG_FUNCTION: &str = "";

/// The people of `dinner` who wait for each other. The others only wait for these.
pub const DEADLOCKED: &[&str] = &[];

/// The animal of `crowd` that is preempted.
pub const PREEMPTED: &str = "";

/// The animal of `crowd` that blocks its M.
pub const BLOCKS: &str = "";
// ANCHOR_END: answers
