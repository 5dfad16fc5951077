//! For tests, the stacks of dead Gs can be poisoned, so that a write to such a stack is noticed when the stack is used
//! again: see [`Platform::poisons_dead_stacks`].

use core::slice;

use crate::context;
use crate::entities::goroutine::Goroutine;
use crate::platform::Platform;

/// The words at the upper end of a dead stack that are poisoned. They hold the outer frames of every G, and most Gs use
/// no more of their stacks.
const POISONED_WORDS: usize = 32 * 1024 / size_of::<usize>();

/// The pattern in the poisoned words. It is no valid address on x86-64, so dereferencing it causes an exception.
const POISON: usize = 0xDEAD_57AC_DEAD_57AC;

/// Poisons the stack of `free`, which is new or goes to a free list, if the platform wants that. The caller owns the
/// slot, and guarantees that nothing on the stack is needed any more.
#[inline(always)]
pub(crate) fn poison<Plat: Platform>(free: &Goroutine<Plat>) {
    if Plat::CAN_POISON_DEAD_STACKS && Plat::poisons_dead_stacks() {
        poisoned_words(free).fill(POISON);
    }
}

/// Called when the free slot `free` has got the stack of a G that has not begun to run. Restores the words of this
/// stack that preparing the context has overwritten.
#[inline(always)]
pub(crate) fn repair_poison<Plat: Platform>(free: &Goroutine<Plat>) {
    const PREPARED_WORDS: usize = context::FIRST_FRAME / size_of::<usize>();
    if Plat::CAN_POISON_DEAD_STACKS && Plat::poisons_dead_stacks() {
        let words = poisoned_words(free);
        // If the lowest word was not poisoned, the stack is not checked.
        if words[0] == POISON {
            let first = words.len() - PREPARED_WORDS;
            words[first..].fill(POISON);
        }
    }
}

/// Checks the stack of `reused`, which has been taken from a free list. The stack is not checked if its lowest word was
/// not poisoned, because it went to the free list before poisoning began. The program ends if the stack was written to
/// while it was on the free list.
#[inline(always)]
pub(crate) fn check_poison<Plat: Platform>(reused: &Goroutine<Plat>) {
    if Plat::CAN_POISON_DEAD_STACKS && Plat::poisons_dead_stacks() {
        let words = poisoned_words(reused);
        let written = words.iter().rposition(|&word| word != POISON).filter(|_| words[0] == POISON);
        if let Some(index) = written {
            let (below, found) = ((words.len() - index) * size_of::<usize>(), words[index]);
            Plat::fatal(
                reused.scheduler(),
                format_args!("a dead stack was written to: {found:#x} is {below} bytes below its end"),
            );
        }
    }
}

/// The words of the stack of a free slot that are poisoned. The caller owns the slot.
#[cold]
#[inline(never)]
#[expect(clippy::mut_from_ref, reason = "the slot owns its stack, and the caller owns the slot")]
fn poisoned_words<Plat: Platform>(free: &Goroutine<Plat>) -> &mut [usize] {
    let stack = free.stack();
    let count = POISONED_WORDS.min(stack.len() / size_of::<usize>());
    let first = core::ptr::with_exposed_provenance_mut::<usize>(stack.end - count * size_of::<usize>());
    #[expect(unsafe_code, reason = "overwrites a stack")]
    // SAFETY: the words are aligned, because the end of a stack is. They are in the stack of a dead G, and this stack
    // is mapped and readable. The G has left the stack, and its result has been taken out. The caller owns the slot, so
    // no other code uses the stack until the slot is used again.
    unsafe {
        slice::from_raw_parts_mut(first, count)
    }
}
