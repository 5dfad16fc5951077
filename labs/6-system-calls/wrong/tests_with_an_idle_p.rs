//! The tests never have more Gs than Ps, so no G waits for a P.
//! fails: finds-handoffs, finds-retakes

// ANCHOR: trials
use Step::{Block, BlockAndWork, Call, Check, End, Return, Work};

/// One G or two.
pub const TRIALS: &[&[Step]] = &[
    &[Work, Block(0), Return, Block(0)],
    &[Work, Work, BlockAndWork(0)],
    &[Work, Call(0), Check, Check],
    &[Work, Work, Block(1), End(0), Return],
];
// ANCHOR_END: trials
