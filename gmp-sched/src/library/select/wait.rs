//! How a select waits: steps 2 to 4 of its algorithm (see [`select`](super)).

use core::mem;

use super::choose::choose;
use super::locks::{enter_all, leave_queues, lock_in_order, sort, unlock_all};
use super::{Case, Choice};
use crate::base::atomic::Ordering;
use crate::engine::hooks::Window;
use crate::engine::ready::ready_pinned;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{Goroutine, WaitGeneration, WaitReason};
use crate::entities::wait_reason::{Awaited, WaitFor};
use crate::entities::window::At;
use crate::library::chan::Attempt;
use crate::library::limit::Patience;
use crate::library::waiter::wait;
use crate::platform::{Pinned, Platform};

/// Steps 2 to 4 of a select that may wait and may choose any case. First goes through the cases and, for each case,
/// locks the channel, checks the case, and queues on the channel. If a channel is already locked or a case seems to be
/// ready, undoes this, and starts again at step 2 with all channels locked. Returns `None` if the limit ended the wait.
///
/// Inlined into [`Remaining::wait`](super::Remaining::wait), where the number of cases is known, so that the loops are
/// unrolled.
#[inline(always)]
#[track_caller]
pub(super) fn wait_for_one<'a, Plat, C>(
    pinned: Pinned<Plat>,
    cases: &mut C,
    patience: Patience<'_, Plat>,
) -> Option<usize>
where
    Plat: Platform,
    C: AsRef<[Case<'a, Plat>]> + AsMut<[Case<'a, Plat>]> + ?Sized,
{
    let caller = CurrentGoroutine::of(pinned);
    let window = Window::<Plat>::open(At::SelectQueues);
    let generation = caller.me.open_wait();
    if !enter_all(&caller.pinned, caller.me, generation, cases.as_mut()) {
        window.close();
        return with_all_locks(caller.pinned, cases.as_mut(), Choice::Random, patience);
    }
    park(caller, window, &*cases, generation, patience)
}

/// Does what [`wait_for_one`] does, for a number of cases that is known only at run time.
#[inline(never)]
#[track_caller]
pub(super) fn wait_for_one_of_some<Plat: Platform>(
    pinned: Pinned<Plat>,
    cases: &mut [Case<'_, Plat>],
    patience: Patience<'_, Plat>,
) -> Option<usize> {
    wait_for_one(pinned, cases, patience)
}

/// Locks all channels, then performs a ready case or waits for one (steps 2 to 4 of the algorithm). Returns `None` if
/// `patience` ended first.
#[inline(never)]
#[track_caller]
pub(super) fn with_all_locks<Plat: Platform>(
    pinned: Pinned<Plat>,
    cases: &mut [Case<'_, Plat>],
    choice: Choice,
    patience: Patience<'_, Plat>,
) -> Option<usize> {
    let is_over = patience.limit().is_some_and(|limit| limit.err().is_some());
    sort(&pinned, cases, choice);
    lock_in_order(&pinned, cases);
    if let Some((chosen, waiting)) = try_locked(&pinned, cases, choice, is_over) {
        unlock_all(cases);
        if let Some(goroutine) = waiting {
            ready_pinned(&pinned, goroutine);
        }
        return cases.get(chosen).map(Case::number);
    }
    if !patience.may_wait() {
        unlock_all(cases);
        return None;
    }
    let (caller, locked) = CurrentGoroutine::holding(pinned, Locked { cases });
    mem::forget(locked);
    let window = Window::<Plat>::open(At::SelectQueues);
    let generation = caller.me.open_wait();
    cases.iter_mut().for_each(|case| case.enter_queue(caller.me, generation));
    park(caller, window, &*cases, generation, patience).map(|chosen| cases[chosen].number())
}

/// Tries cases with all locks held (the second half of step 2 of the algorithm). A case that seems to be ready is
/// really ready, unless other wakers have ended the waits of all Gs on the other side of its channel, or its timer is
/// dormant and not due. A failed attempt removes the waiters of those Gs from the queue or, if the caller has a P, arms
/// the timer, so that the case no longer seems to be ready. A caller without a P cannot arm the timer, whose case goes
/// on to seem ready; then the others are [tried once each](try_others). If the limit `is_over` and is chosen, returns
/// `cases.len()` in place of an index.
#[cold]
#[inline(never)]
pub(crate) fn try_locked<Plat: Platform>(
    pinned: &Pinned<Plat>,
    cases: &[Case<'_, Plat>],
    choice: Choice,
    is_over: bool,
) -> Option<(usize, Option<&'static Goroutine<Plat>>)> {
    loop {
        let chosen = match choice {
            Choice::Random => choose(pinned, cases, is_over)?,
            Choice::First => {
                let ready = (0..cases.len()).filter(|&index| cases[index].looks_ready());
                ready.min_by_key(|&index| cases[index].number()).or(is_over.then_some(cases.len()))?
            }
        };
        let Some(case) = cases.get(chosen) else { return Some((chosen, None)) };
        match case.attempt() {
            Attempt::Moved(waiting) => return Some((chosen, waiting)),
            Attempt::Closed => return Some((chosen, None)),
            Attempt::NotReady if case.looks_ready() => return try_others(cases, chosen, is_over),
            Attempt::NotReady => {}
        }
    }
}

/// Tries all cases but `first` in the order of their numbers, beginning behind that of `first`. One attempt for each is
/// enough, because all locks are held, so that no case becomes ready in between. An ordered select has found no case
/// ready that comes before `first`. Chooses the limit only if no case is ready.
#[cold]
fn try_others<Plat: Platform>(
    cases: &[Case<'_, Plat>],
    first: usize,
    is_over: bool,
) -> Option<(usize, Option<&'static Goroutine<Plat>>)> {
    for distance in 1..cases.len() {
        let number = (cases[first].number() + distance) % cases.len();
        let index = cases.iter().position(|case| case.number() == number).expect("the cases are numbered");
        match cases[index].attempt() {
            Attempt::Moved(waiting) => return Some((index, waiting)),
            Attempt::Closed => return Some((index, None)),
            Attempt::NotReady => {}
        }
    }
    is_over.then_some((cases.len(), None))
}

/// Parks, and leaves the queues (the rest of step 3, and step 4 of the algorithm). The caller holds the locks of all
/// channels and has queued on them. Returns the index of the chosen case, or `None` if the limit ended the wait.
#[inline(always)]
#[track_caller]
fn park<'a, Plat, C>(
    caller: CurrentGoroutine<Plat>,
    window: Window<Plat>,
    // Until this G has locked each channel again, the far side may still be in `unlock_all`, which reads the cases. So
    // from here on this G, too, only reads the cases.
    cases: &C,
    generation: WaitGeneration,
    patience: Patience<'_, Plat>,
) -> Option<usize>
where
    Plat: Platform,
    C: AsRef<[Case<'a, Plat>]> + ?Sized,
{
    let (me, limit, awaited) = (caller.me, patience.limit(), cases.as_ref());
    // Without cases and without a limit, nothing can end the wait.
    let reason = if awaited.is_empty() && limit.is_none() { WaitReason::SelectNoCases } else { WaitReason::Select };
    // The closure is `move`, because the G may run and end while the far side is still in `unlock_all`, if there are no
    // cases.
    wait(caller, WaitFor::new(reason, &awaited), generation, limit.copied(), move || unlock_all(cases.as_ref()));
    window.close();
    leave_queues(&Pinned::of_scheduler(), cases.as_ref(), me.woken_by.load(Ordering::Relaxed))
}

/// The locks that a select keeps while it prepares to park. Dropping this guard releases the locks, for example when
/// the select panics because its caller must not block.
struct Locked<'c, 'a, Plat: Platform> {
    cases: &'c [Case<'a, Plat>],
}

impl<Plat: Platform> Drop for Locked<'_, '_, Plat> {
    fn drop(&mut self) {
        unlock_all(self.cases);
    }
}

impl<Plat: Platform> Awaited for &[Case<'_, Plat>] {
    /// Whether each channel belongs to the caller's bubble or is a nil channel.
    #[cold]
    fn is_of_current_bubble(&self) -> bool {
        self.iter().all(Case::is_of_current_bubble)
    }
}
