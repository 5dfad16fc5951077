//! Counts how much memory is used for each purpose.

use super::address::PAGE_SIZE;
use super::usage::Usage;
use super::{frame, page_runs, pressure, stack};

/// Returns how much memory there is, and how much is used for each purpose. Does not block. Not callable from interrupt
/// handlers.
#[must_use]
pub fn usage() -> Usage {
    let stacks = stack::figures();
    let kept_by_goroutines = pressure::cached_stacks();
    Usage {
        total: frame::total_frames() * PAGE_SIZE,
        free: frame::free_frames() * PAGE_SIZE,
        heap: page_runs::bytes(),
        stacks_in_use: stacks.in_use.saturating_sub(kept_by_goroutines),
        stacks_cached: stacks.free + kept_by_goroutines,
        stacks_reserved: stacks.reserved_bytes,
        stacks_committed: stacks.committed_bytes,
    }
}
