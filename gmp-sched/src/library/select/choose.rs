//! How a select chooses one of the cases that seem to be ready, and step 1 of its algorithm (see [`select`](super)).

use super::{Case, Choice};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::library::chan::{Attempt, unlock_and_ready};
use crate::platform::{Pinned, Platform};

/// Step 1 of a select (see [`select`](super)): performs one of the cases that seem to be ready, and returns its index.
/// Returns `None` if no case seems to be ready, or if each of `cases.len()` attempts has failed. If the limit `is_over`
/// and is chosen, returns `cases.len()`.
#[inline]
pub(super) fn try_one<Plat: Platform>(
    pinned: &Pinned<Plat>,
    cases: &[Case<'_, Plat>],
    choice: Choice,
    is_over: bool,
) -> Option<usize> {
    // An attempt fails only if another G has performed the operation first, if other wakers have ended the waits of all
    // Gs on the other side of the channel, or if the channel is that of a dormant timer that is not due. After the last
    // failed attempt, the caller continues with step 2 of the algorithm.
    for _ in 0..cases.len() {
        let chosen = match choice {
            Choice::Random => choose(pinned, cases, is_over)?,
            // An ordered select may choose a later case only if no earlier one is ready at the same instant. That can
            // be checked only with all locks held. So step 1 tries only the first case.
            Choice::First => cases.first().filter(|first| first.looks_ready()).map(|_| 0)?,
        };
        let Some(case) = cases.get(chosen) else { return Some(chosen) };
        match case.lock_and_attempt(pinned) {
            (held, Attempt::Moved(waiting)) => {
                unlock_and_ready(pinned, held, waiting);
                return Some(chosen);
            }
            (_, Attempt::Closed) => return Some(chosen),
            (_, Attempt::NotReady) => {}
        }
    }
    None
}

/// Returns the index of one of the cases that seem to be ready, each with equal probability. A limit that `is_over`
/// counts as a further case behind the last one.
#[inline]
pub(super) fn choose<Plat: Platform>(pinned: &Pinned<Plat>, cases: &[Case<'_, Plat>], is_over: bool) -> Option<usize> {
    if cases.len() >= u64::BITS as usize {
        return choose_of_many(pinned, cases, is_over);
    }
    let mut ready = u64::from(is_over) << cases.len();
    for (number, case) in cases.iter().enumerate() {
        ready |= u64::from(case.looks_ready()) << number;
    }
    choose_bit(pinned, ready)
}

/// Returns the index of one of the set bits, each with equal probability.
#[inline(always)]
pub(super) fn choose_bit<Plat: Platform>(pinned: &Pinned<Plat>, mut bits: u64) -> Option<usize> {
    // Usually at most one bit is set.
    if bits & bits.wrapping_sub(1) != 0 {
        for _ in 0..random_below(pinned, bits.count_ones()) {
            bits &= bits - 1;
        }
    }
    (bits != 0).then_some(bits.trailing_zeros() as usize)
}

/// Does what [`choose`] does, for more cases than a word has bits for, by reservoir sampling. The n-th ready case
/// replaces the choice with probability 1/n, which makes all ready cases equally likely (Vitter, *Random Sampling with
/// a Reservoir*, 1985, algorithm R).
#[cold]
#[inline(never)]
fn choose_of_many<Plat: Platform>(pinned: &Pinned<Plat>, cases: &[Case<'_, Plat>], is_over: bool) -> Option<usize> {
    let (mut ready, mut chosen) = (0, None);
    let looks_ready = cases.iter().map(Case::looks_ready).chain([is_over]);
    for (number, looks_ready) in looks_ready.enumerate() {
        if looks_ready {
            ready += 1;
            if random_below(pinned, ready) == 0 {
                chosen = Some(number);
            }
        }
    }
    chosen
}

/// Returns a random number below `limit`. Never panics, because a select calls this with locks held. Callable also in
/// a system call and on threads that are not Ms.
pub(super) fn random_below<Plat: Platform>(pinned: &Pinned<Plat>, limit: u32) -> u32 {
    let processor = pinned.try_machine().and_then(Machine::processor);
    let random = processor.map_or_else(random_without_processor::<Plat>, Processor::random);
    ((u64::from(random) * u64::from(limit)) >> 32) as u32
}

/// Computes a random number by hashing the clock (with the finalizer of SplitMix64).
#[cold]
#[inline(never)]
fn random_without_processor<Plat: Platform>() -> u32 {
    let mut bits = Plat::now().as_nanos().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (bits >> 32) as u32
}
