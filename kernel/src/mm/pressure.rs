//! What is done when frames run out: memory that is only kept for later goes back.

use super::{PAGE_SIZE, frame, stack};
use crate::cpu::contexts;
use crate::sched::platform;

/// Stacks of dead Gs asked of the scheduler at a time.
const STACKS_AT_ONCE: usize = 64;
/// Frames asked for by a G that has none for its stack, for this page and for others.
const FRAMES_AT_ONCE: usize = 64;

/// Frees `frames` frames of what is only kept for later, or as many as there are, and gives their number. Locks of the
/// scheduler are taken: not for the path of a page fault; where one must not
/// allocate nothing is done.
#[cold]
pub(super) fn relieve(frames: usize) -> usize {
    if !contexts::may_allocate() {
        return 0;
    }
    let mut freed = 0;
    while freed < frames {
        freed += stack::give_back(frames - freed);
        if freed < frames && platform::give_back_stacks(STACKS_AT_ONCE) == 0 {
            break;
        }
    }
    freed
}

/// Tries to have free frames for those to whom the last one would be given; tells whether there are any.
pub(crate) fn make_room() -> bool {
    relieve(FRAMES_AT_ONCE) != 0 || frame::free_frames() != 0
}

/// How many frames the heap may have, [`relieve`]d of what is kept for later if those are fewer than `wanted`.
pub(super) fn frames_within_reach(wanted: usize) -> usize {
    let frames = frame::ordinary_frames();
    if frames >= wanted || relieve(wanted - frames) == 0 {
        return frames;
    }
    frame::ordinary_frames()
}

/// Frees all memory that is only kept for later: the stacks of dead Gs. Gives the number of bytes. Happens by itself when
/// memory is short. Does not block; not callable from interrupts, where it does nothing. Go: `debug.FreeOSMemory`.
#[doc(alias = "FreeOSMemory")]
pub fn free_cached_memory() -> usize {
    relieve(usize::MAX) * PAGE_SIZE
}
