//! Frees cached memory when the frames run out.

use spin::Once;

use super::address::PAGE_SIZE;
use super::frame;
use super::stack::class;
use crate::cpu::contexts;

/// The functions that free and count the stacks of dead Gs. The scheduler keeps dead Gs with their stacks for the next
/// Gs. The scheduler is in a layer above this one, so it registers these functions as hooks.
#[derive(Debug)]
pub(crate) struct StackCache {
    /// Frees at most the given number of stacks. Returns how many it has freed.
    pub(crate) free: fn(usize) -> usize,
    /// Returns how many stacks are cached.
    pub(crate) count: fn() -> usize,
}

static STACK_CACHE: Once<StackCache> = Once::new();

/// Registers the functions for cached stacks. Called once, before Gs run.
pub(crate) fn set_stack_cache(cache: StackCache) {
    STACK_CACHE.call_once(|| cache);
}

/// Returns how many stacks dead Gs keep.
pub(super) fn cached_stacks() -> usize {
    STACK_CACHE.get().map_or(0, |cache| (cache.count)())
}

/// Frees at most the given number of stacks of dead Gs. Returns how many it has freed.
fn free_cached_stacks(at_most: usize) -> usize {
    STACK_CACHE.get().map_or(0, |cache| (cache.free)(at_most))
}

/// How many stacks of dead Gs are freed at a time.
const STACKS_AT_ONCE: usize = 64;
/// How many frames a G frees when there is no frame for a page of its stack. They are enough for this page and for many
/// later ones.
const FRAMES_AT_ONCE: usize = 64;

/// Frees cached memory until at least `frames` frames are freed or no cached memory is left. Returns how many frames
/// were freed. This function takes locks of the scheduler. So it does nothing, and returns 0, in a context in which
/// memory must not be allocated, such as a page fault handler.
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

/// Frees cached memory. Returns whether there are free frames afterwards.
pub(crate) fn make_room() -> bool {
    relieve(FRAMES_AT_ONCE) != 0 || frame::free_frames() != 0
}

/// Returns how many frames the heap may take. If there are fewer than `wanted`, first frees cached memory.
pub(super) fn frames_within_reach(wanted: usize) -> usize {
    let frames = frame::ordinary_frames();
    if frames >= wanted || relieve(wanted - frames) == 0 {
        return frames;
    }
    frame::ordinary_frames()
}

/// Frees cached memory: the memory of free stacks and of the stacks of dead Gs. Up to 64 stacks of dead Gs may remain
/// on each P except that of the caller. Returns how many bytes were freed. When memory runs short, the kernel frees
/// cached memory by itself. Does not block. Does nothing, and returns 0, in a context in which memory must not be
/// allocated, such as an interrupt handler. Go: `debug.FreeOSMemory`.
#[doc(alias = "FreeOSMemory")]
pub fn free_cached_memory() -> usize {
    relieve(usize::MAX) * PAGE_SIZE
}
