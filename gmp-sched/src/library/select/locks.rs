//! Locking all channels of a select, each once, and queueing on them.

use core::mem;

use super::Choice;
use super::case::Case;
use super::choose::random_below;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::waiter::Waiter;
#[cfg(doc)]
use crate::library::chan::Header;
use crate::platform::{Pinned, Platform};

/// Which locks a select holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Locked {
    /// The lock of each case's channel is held, and all channels are different.
    Each,
    /// The locks of this many different channels are held. They were taken in locking order, that is, by the
    /// [places](Header::place_in_order) of the channels. See [`enter_in_order`] for the order of waiters on the same
    /// channel.
    Listed(usize),
}

/// Locks each channel, queues `me` on it, and returns `true`. If a channel is already locked (by another G, or by this
/// select because two cases use the same channel), or if a case seems to be ready, undoes everything and returns
/// `false`. Other Gs never find the undone waiters, because they search the queues under the same locks. A check
/// without the lock may see that a queue is not empty, but such a check is only a hint.
#[inline(always)]
pub(crate) fn enter_all<Plat: Platform>(
    pinned: &Pinned<Plat>,
    me: &'static Goroutine<Plat>,
    generation: WaitGeneration,
    cases: &mut [Case<'_, Plat>],
) -> bool {
    let count = cases.len();
    let mut left = cases.iter_mut();
    while let Some(case) = left.next() {
        if !case.lock_and_enter(pinned, me, generation) {
            let entered = count - left.len() - 1;
            take_back_all(&cases[..entered]);
            return false;
        }
    }
    true
}

/// Undoes [`enter_all`] for the cases in `entered`.
#[cold]
#[inline(never)]
fn take_back_all<Plat: Platform>(entered: &[Case<'_, Plat>]) {
    for case in entered {
        case.take_back();
        case.unlock();
    }
}

/// Removes a G from all queues after its wait. `waker` is the waiter through which the G was woken, if any. The G that
/// ended the wait has removed this waiter already, and this function removes the waiters of all other cases. Records
/// the outcome of the case that contains `waker`, and returns the index of that case.
#[inline(always)]
pub(crate) fn leave_queues<Plat: Platform>(
    pinned: &Pinned<Plat>,
    cases: &[Case<'_, Plat>],
    waker: Option<&'static Waiter<Plat>>,
) -> Option<usize> {
    // The initial value is not the index of any case. `chosen` keeps this value if no case has woken the G.
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

/// Locks each channel once; returns which locks are held, and whether a case seems to be ready.
///
/// First tries to take the locks in the order of `cases`. This needs no sorting, and cannot deadlock, because it never
/// waits for a lock. If a lock is not free, starts over in the order of the channels' places, which is the same for all
/// selects.
#[inline]
pub(super) fn lock_all<Plat: Platform>(
    pinned: &Pinned<Plat>,
    cases: &mut [Case<'_, Plat>],
    choice: Choice,
) -> (Locked, bool) {
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
fn lock_all_in_order<Plat: Platform>(
    pinned: &Pinned<Plat>,
    cases: &mut [Case<'_, Plat>],
    choice: Choice,
) -> (Locked, bool) {
    list_as_given(cases);
    if choice == Choice::Random {
        shuffle(pinned, cases);
    }
    sort_by_place(cases);
    let locked = lock_in_order(pinned, cases);
    (locked, cases.iter().any(Case::looks_ready))
}

/// Ciura's gap sequence of Shell sort. For a few cases the sort is an insertion sort; for many cases it is still fast.
/// The sorts of `core` cannot be used: they sort a slice, but the locking order is a number in each case, so that a
/// select of any number of cases needs no memory. Sorting the cases themselves would change their numbers.
const GAPS: [usize; 8] = [701, 301, 132, 57, 23, 10, 4, 1];

/// Sets the locking order to the order of `cases`.
pub(crate) fn list_as_given<Plat: Platform>(cases: &mut [Case<'_, Plat>]) {
    for (number, case) in (0..).zip(cases) {
        case.listed = number;
    }
}

/// Shuffles the locking order so that all permutations are equally likely (Fisher–Yates). Go: `pollorder`.
#[doc(alias = "pollorder")]
fn shuffle<Plat: Platform>(pinned: &Pinned<Plat>, cases: &mut [Case<'_, Plat>]) {
    for (position, count) in (0..cases.len()).zip(1..) {
        let other = random_below(pinned, count) as usize;
        let here = cases[position].listed;
        cases[position].listed = mem::replace(&mut cases[other].listed, here);
    }
}

/// Sorts the locking order by the channels' [places](Header::place_in_order). If the cases were shuffled, cases of the
/// same channel remain in random order, because only the places are compared. If the cases were not shuffled, the sort
/// may reorder cases of the same channel. Go: `lockorder`.
#[doc(alias = "lockorder")]
pub(crate) fn sort_by_place<Plat: Platform>(cases: &mut [Case<'_, Plat>]) {
    fn place<Plat: Platform>(cases: &[Case<'_, Plat>], number: u32) -> (u32, usize) {
        cases[number as usize].place_in_order()
    }
    let count = cases.len();
    for gap in GAPS.into_iter().filter(|&gap| gap < count) {
        for start in gap..count {
            let number = cases[start].listed;
            let mut position = start;
            while position >= gap && place(cases, cases[position - gap].listed) > place(cases, number) {
                cases[position].listed = cases[position - gap].listed;
                position -= gap;
            }
            cases[position].listed = number;
        }
    }
}

/// The first case of each channel, in locking order.
fn firsts<'c, 'a, Plat: Platform>(cases: &'c [Case<'a, Plat>]) -> impl Iterator<Item = &'c Case<'a, Plat>> {
    let mut last = None;
    cases.iter().map(|position| &cases[position.listed as usize]).filter(move |case| {
        let address = Some(case.address());
        mem::replace(&mut last, address) != address
    })
}

/// Locks each channel once, in locking order.
pub(crate) fn lock_in_order<Plat: Platform>(pinned: &Pinned<Plat>, cases: &[Case<'_, Plat>]) -> Locked {
    let mut locked = 0;
    for case in firsts(cases) {
        case.lock(pinned);
        locked += 1;
    }
    Locked::Listed(locked)
}

/// Queues `me` on each channel. All channels are locked. Waiters on the same channel queue in locking order if the
/// select may choose any case, and in the order of `cases` if the select is ordered.
pub(super) fn enter_in_order<Plat: Platform>(
    cases: &mut [Case<'_, Plat>],
    locked: Locked,
    choice: Choice,
    me: &'static Goroutine<Plat>,
    generation: WaitGeneration,
) {
    for position in 0..cases.len() {
        let number = match (locked, choice) {
            (Locked::Listed(_), Choice::Random) => cases[position].listed as usize,
            // If all channels are different, each queue gets one waiter, and the order does not matter. Otherwise the
            // select is ordered, and its waiters queue in the order of `cases`.
            (Locked::Each, _) | (_, Choice::First) => position,
        };
        cases[number].enter_queue(me, generation);
    }
}

/// Unlocks the channels.
///
/// If this is called in the commit of a park, the G may run as soon as its first channel is unlocked. But before the G
/// leaves the select, it locks each channel again, except the channel through which it was woken, which has already
/// been unlocked. So the G waits until the last channel is unlocked. Until then the cases are valid. They are not
/// accessed after that.
pub(crate) fn unlock_all<Plat: Platform>(cases: &[Case<'_, Plat>], locked: Locked) {
    match locked {
        Locked::Each => unlock_each(cases),
        // `take` ends the iteration after the last unlock, because the cases may no longer be valid then.
        Locked::Listed(count) => firsts(cases).take(count).for_each(Case::unlock),
    }
}

/// Does what [`unlock_all`] does, for cases whose channels are all different.
#[inline(always)]
pub(super) fn unlock_each<Plat: Platform>(cases: &[Case<'_, Plat>]) {
    #[expect(clippy::needless_range_loop, reason = "of an iterator the compiler counts the steps first, by a division")]
    for number in 0..cases.len() {
        cases[number].unlock();
    }
}
