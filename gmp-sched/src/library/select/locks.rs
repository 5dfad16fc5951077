//! Locking all channels of a select, each once, and queueing on them.

use super::choose::random_below;
use super::{Case, Choice};
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::waiter::Waiter;
use crate::platform::{Pinned, Platform};

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

/// Numbers the cases, and sorts them by the [places](crate::library::chan::Header::place_in_order) of their channels,
/// which is the order in which all selects lock. Cases of the same channel, and so their waiters in its queue, are in
/// random order (Fisher–Yates), or in the order of their numbers if the select is ordered. Go: `pollorder`,
/// `lockorder`.
#[doc(alias = "pollorder")]
#[doc(alias = "lockorder")]
pub(crate) fn sort<Plat: Platform>(pinned: &Pinned<Plat>, cases: &mut [Case<'_, Plat>], choice: Choice) {
    for (number, case) in (0..).zip(cases.iter_mut()) {
        case.set_number(number);
    }
    match choice {
        Choice::Random => {
            for (position, count) in (0..cases.len()).zip(1..) {
                cases.swap(position, random_below(pinned, count) as usize);
            }
            cases.sort_unstable_by_key(Case::place_in_order);
        }
        Choice::First => cases.sort_unstable_by_key(|case| (case.place_in_order(), case.number())),
    }
}

/// Locks each channel once. The cases are [sorted](sort).
pub(crate) fn lock_in_order<Plat: Platform>(pinned: &Pinned<Plat>, cases: &[Case<'_, Plat>]) {
    for channel in cases.chunk_by(|one, next| one.address() == next.address()) {
        channel[0].lock(pinned);
    }
}

/// Unlocks each channel once. The cases are sorted, or no two of them have the same channel.
///
/// If this is called in the commit of a park, the G may run as soon as its first channel is unlocked. But before the G
/// leaves the select, it locks each channel again, except the channel through which it was woken, which has already
/// been unlocked. So the G waits until the last channel is unlocked. Until then the cases are valid. They are not
/// accessed after that: a channel is unlocked at the last of its cases.
#[inline(always)]
pub(crate) fn unlock_all<Plat: Platform>(cases: &[Case<'_, Plat>]) {
    for number in 0..cases.len() {
        let next = cases.get(number + 1);
        if next.is_none_or(|next| next.address() != cases[number].address()) {
            cases[number].unlock();
        }
    }
}
