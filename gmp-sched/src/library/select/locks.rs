//! Locking the channels of a select, all of them and each once, and standing in their queues.

use core::mem;

use super::case::Case;
use super::{Choice, random_below};
use crate::entities::goroutine::{Goroutine, Ticket};
use crate::library::waiter::Waiter;
use crate::platform::{Pinned, Platform};

/// Which locks a select keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Locked {
    /// Each case that of its channel: they are all different.
    Each,
    /// The first one of each channel in the order in which the cases are listed, as many as that. Two cases of one channel queue
    /// in that order, too.
    Listed(usize),
}

/// Locks each channel, keeps the locks, and queues `me` there with that ticket; if one of them is busy, be it with this
/// select itself, or seems to be ready, undoes it all and tells `false`. Nobody has noticed: who looks at a queue has the
/// lock.
#[inline(always)]
pub(crate) fn enter_all<P: Platform>(
    pinned: &Pinned<P>,
    me: &'static Goroutine<P>,
    ticket: Ticket,
    cases: &mut [Case<'_, P>],
) -> bool {
    let count = cases.len();
    let mut left = cases.iter_mut();
    while let Some(case) = left.next() {
        if !case.lock_and_enter(pinned, me, ticket) {
            let entered = count - left.len() - 1;
            take_back_all(&cases[..entered]);
            return false;
        }
    }
    true
}

/// Undoes [`enter_all`].
#[cold]
#[inline(never)]
fn take_back_all<P: Platform>(entered: &[Case<'_, P>]) {
    for case in entered {
        case.take_back();
        case.unlock();
    }
}

/// Takes the waiters of all cases but that of `waker` out of their queues, and does what is left to do of that one, of which it
/// tells the number.
#[inline(always)]
pub(crate) fn leave_queues<P: Platform>(
    pinned: &Pinned<P>,
    cases: &[Case<'_, P>],
    waker: Option<&'static Waiter<P>>,
) -> Option<usize> {
    // Until it is found, the number of no case.
    let mut chosen = cases.len();
    for (number, case) in cases.iter().enumerate() {
        if waker.is_some_and(|waker| core::ptr::eq(waker, case.waiter())) {
            chosen = number;
        } else {
            case.leave_queue(pinned);
        }
    }
    cases.get(chosen)?.finish();
    Some(chosen)
}

/// Locks each channel once; gives which locks are kept, and whether any case seems to be ready.
///
/// At first without an order, which takes no time and cannot end in a deadlock, since a lock that somebody has is not
/// waited for. If there is one, in the order of their addresses, as everybody does.
#[inline]
pub(super) fn lock_all<P: Platform>(pinned: &Pinned<P>, cases: &mut [Case<'_, P>], choice: Choice) -> (Locked, bool) {
    let mut is_any_ready = false;
    for number in 0..cases.len() {
        if !cases[number].try_lock(pinned) {
            unlock_each(&cases[..number]);
            return lock_all_in_order(pinned, cases, choice);
        }
        is_any_ready |= cases[number].looks_ready();
    }
    (Locked::Each, is_any_ready)
}

#[cold]
#[inline(never)]
fn lock_all_in_order<P: Platform>(pinned: &Pinned<P>, cases: &mut [Case<'_, P>], choice: Choice) -> (Locked, bool) {
    list_as_given(cases);
    if choice == Choice::Random {
        shuffle(pinned, cases);
    }
    sort_by_address(cases);
    let locked = lock_in_order(pinned, cases);
    (locked, cases.iter().any(Case::looks_ready))
}

/// Distances at which cases are compared, from far to near: Shell's sort, with Ciura's gaps. For a few cases it is
/// insertion, and for many it is not slow.
const GAPS: [usize; 8] = [701, 301, 132, 57, 23, 10, 4, 1];

/// Lists the cases in the order in which they are given.
pub(crate) fn list_as_given<P: Platform>(cases: &mut [Case<'_, P>]) {
    for (number, case) in (0..).zip(cases) {
        case.listed = number;
    }
}

/// Lists the cases in any order, all with the same probability (Fisher and Yates). Go: `pollorder`.
#[doc(alias = "pollorder")]
fn shuffle<P: Platform>(pinned: &Pinned<P>, cases: &mut [Case<'_, P>]) {
    for (place, count) in (0..cases.len()).zip(1..) {
        let other = random_below(pinned, count) as usize;
        let here = cases[place].listed;
        cases[place].listed = mem::replace(&mut cases[other].listed, here);
    }
}

/// Lists the cases by the addresses of their channels. Those of one channel stay shuffled if they were: the sort knows nothing
/// of them but the address. If they were not they may change places all the same. Go: `lockorder`.
#[doc(alias = "lockorder")]
pub(crate) fn sort_by_address<P: Platform>(cases: &mut [Case<'_, P>]) {
    fn address<P: Platform>(cases: &[Case<'_, P>], number: u32) -> usize {
        cases[number as usize].address()
    }
    let count = cases.len();
    for gap in GAPS.into_iter().filter(|&gap| gap < count) {
        for start in gap..count {
            let number = cases[start].listed;
            let mut position = start;
            while position >= gap && address(cases, cases[position - gap].listed) > address(cases, number) {
                cases[position].listed = cases[position - gap].listed;
                position -= gap;
            }
            cases[position].listed = number;
        }
    }
}

/// The first case of each channel, in the order in which the cases are listed.
fn firsts<'c, 'a, P: Platform>(cases: &'c [Case<'a, P>]) -> impl Iterator<Item = &'c Case<'a, P>> {
    let mut last = None;
    cases.iter().map(|place| &cases[place.listed as usize]).filter(move |case| {
        let address = Some(case.address());
        mem::replace(&mut last, address) != address
    })
}

/// Locks each channel once, in the order in which the cases are listed.
pub(crate) fn lock_in_order<P: Platform>(pinned: &Pinned<P>, cases: &[Case<'_, P>]) -> Locked {
    let mut locked = 0;
    for case in firsts(cases) {
        case.lock(pinned);
        locked += 1;
    }
    Locked::Listed(locked)
}

/// Puts `me` into the queue of each channel, which are locked. A select that takes any case stands among its own waiters of
/// one channel in the order in which the cases are listed, an ordered one in that of the cases.
pub(super) fn enter_in_order<P: Platform>(
    cases: &mut [Case<'_, P>],
    locked: Locked,
    choice: Choice,
    me: &'static Goroutine<P>,
    ticket: Ticket,
) {
    for place in 0..cases.len() {
        let number = match (locked, choice) {
            (Locked::Listed(_), Choice::Random) => cases[place].listed as usize,
            // In each of several queues there is one.
            (Locked::Each, _) | (_, Choice::First) => place,
        };
        cases[number].enter_queue(me, ticket);
    }
}

/// Unlocks the channels.
///
/// On the far side of a park the G may be running again as soon as one channel is free, but it locks each channel itself
/// before it leaves the select. So the cases are there until the last channel is unlocked, and nothing of them is
/// touched after that.
pub(crate) fn unlock_all<P: Platform>(cases: &[Case<'_, P>], locked: Locked) {
    match locked {
        Locked::Each => unlock_each(cases),
        // No more than that: what comes behind the last one is not looked at.
        Locked::Listed(count) => firsts(cases).take(count).for_each(Case::unlock),
    }
}

/// [`unlock_all`] where each case has a channel of its own.
#[inline(always)]
pub(super) fn unlock_each<P: Platform>(cases: &[Case<'_, P>]) {
    #[expect(clippy::needless_range_loop, reason = "of an iterator the compiler counts the steps first, by a division")]
    for number in 0..cases.len() {
        cases[number].unlock();
    }
}
