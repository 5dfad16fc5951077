//! Frees cached memory when the frames run out, and when a CPU has nothing else to do.

use spin::Once;

use super::address::PAGE_SIZE;
use super::frame::Priority;
use super::stack::class;
use super::{frame, heap};
use crate::cpu::contexts;

/// The functions of the scheduler that this layer calls. Two of them free and count the stacks that dead Gs keep, so
/// that the next Gs can use them. The scheduler is in a layer above this one, so it registers these functions as hooks.
#[derive(Debug)]
pub(crate) struct StackCache {
    /// Frees at most the given number of stacks. Returns how many it has freed.
    pub(crate) free: fn(usize) -> usize,
    /// Returns how many stacks are cached.
    pub(crate) count: fn() -> usize,
    /// Notes that memory was taken or put into a cache, so that the background G later frees what is cached.
    pub(crate) note_growth: fn(),
}

static STACK_CACHE: Once<StackCache> = Once::new();

/// Registers the functions for cached stacks. Called once, before Gs run.
pub(crate) fn set_stack_cache(cache: StackCache) {
    STACK_CACHE.call_once(|| cache);
}

/// Notes that memory was taken or put into a cache. Called on slow paths. Callable from everywhere.
pub(super) fn note_growth() {
    if let Some(cache) = STACK_CACHE.get() {
        (cache.note_growth)();
    }
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
/// How many frames are freed at a time: by a G for a page of whose stack there is no frame, and by the background G.
/// They are enough for this page and for many later ones.
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
    if freed < frames {
        freed += heap::release(frames - freed);
    }
    freed
}

/// Frees some cached memory. Returns whether there may be more. The background G calls this repeatedly.
pub(crate) fn scavenge() -> bool {
    relieve(FRAMES_AT_ONCE) >= FRAMES_AT_ONCE
}

/// Frees cached memory. Returns whether there are free frames afterwards.
pub(crate) fn make_room() -> bool {
    relieve(FRAMES_AT_ONCE) != 0 || frame::free_frames() != 0
}

/// Whether a request of this priority may take `wanted` frames. If it may not, first frees cached memory. It frees as
/// much as the request lacks, including the frames that the request must leave.
pub(super) fn make_room_for(wanted: usize, priority: Priority) -> bool {
    let lacking = || frame::lacking(wanted, priority);
    match lacking() {
        0 => true,
        frames => relieve(frames) != 0 && lacking() == 0,
    }
}

/// Frees cached memory: that of free stacks, of the stacks of dead Gs, and of the heap's free objects and page runs. Up
/// to 64 stacks of dead Gs may remain on each P that another M holds. Returns how many bytes were freed. When memory
/// runs short, the kernel frees cached memory by itself. Does not block. Does nothing, and returns 0, in a context in
/// which memory must not be allocated, such as an interrupt handler. Go: `debug.FreeOSMemory`.
#[doc(alias = "FreeOSMemory")]
pub fn free_cached_memory() -> usize {
    relieve(usize::MAX) * PAGE_SIZE
}
