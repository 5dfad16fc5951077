//! Freeing of cached memory when frames run out.

use spin::Once;

use super::address::PAGE_SIZE;
use super::frame;
use super::stack::class;
use crate::cpu::contexts;

/// The owner of cached stacks: the scheduler, whose dead Gs keep their stacks. A hook, since the scheduler is in a layer above.
#[derive(Debug)]
pub(crate) struct StackCache {
    /// Frees up to that many stacks. Returns how many.
    pub(crate) free: fn(usize) -> usize,
    /// How many stacks it has.
    pub(crate) count: fn() -> usize,
}

static STACK_CACHE: Once<StackCache> = Once::new();

/// Registers the owner of cached stacks. Called once, before Gs run.
pub(crate) fn set_stack_cache(cache: StackCache) {
    STACK_CACHE.call_once(|| cache);
}

/// How many stacks dead Gs keep.
pub(super) fn cached_stacks() -> usize {
    STACK_CACHE.get().map_or(0, |cache| (cache.count)())
}

/// Frees up to that many stacks of dead Gs. Returns how many.
fn free_cached_stacks(at_most: usize) -> usize {
    STACK_CACHE.get().map_or(0, |cache| (cache.free)(at_most))
}

/// Stacks of dead Gs taken from the scheduler at once.
const STACKS_AT_ONCE: usize = 64;
/// How many frames a G frees that has none for a page of its stack: for that page and for later ones.
const FRAMES_AT_ONCE: usize = 64;

/// Frees `frames` frames of cached memory, or as many as there are, and returns their number. Takes locks of the scheduler,
/// so it may not be called while handling a page fault; in contexts that must not allocate it does nothing.
#[cold]
pub(super) fn relieve(frames: usize) -> usize {
    if !contexts::may_allocate() {
        return 0;
    }
    let mut freed = 0;
    while freed < frames {
        freed += class::give_back(frames - freed);
        if freed < frames && free_cached_stacks(STACKS_AT_ONCE) == 0 {
            break;
        }
    }
    freed
}

/// Frees cached memory; returns whether there are free frames then.
pub(crate) fn make_room() -> bool {
    relieve(FRAMES_AT_ONCE) != 0 || frame::free_frames() != 0
}

/// Number of frames that the heap may take; [`relieve`]s first if these are fewer than `wanted`.
pub(super) fn frames_within_reach(wanted: usize) -> usize {
    let frames = frame::ordinary_frames();
    if frames >= wanted || relieve(wanted - frames) == 0 {
        return frames;
    }
    frame::ordinary_frames()
}

/// Frees all cached memory: the stacks of dead Gs. Returns the number of bytes. Happens automatically when memory is short.
/// Does not block; not callable from interrupts, where it does nothing. Go: `debug.FreeOSMemory`.
#[doc(alias = "FreeOSMemory")]
pub fn free_cached_memory() -> usize {
    relieve(usize::MAX) * PAGE_SIZE
}
