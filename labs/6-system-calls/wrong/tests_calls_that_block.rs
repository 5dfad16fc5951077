//! The tests have calls that block, and none that may be short.
//! fails: finds-retakes

// ANCHOR: trials
use Step::{Block, BlockAndWork, End, Return, Work};

/// Handoffs and returns.
pub const TRIALS: &[&[Step]] = &[
    &[Work, Work, Work, Block(0)],
    &[Work, Block(0)],
    &[Work, Work, BlockAndWork(0)],
    &[Work, Block(0), Return, Block(0)],
    &[Work, Work, Work, Block(0), Return],
    &[Work, Work, Block(1), End(0), Return],
];
// ANCHOR_END: trials
