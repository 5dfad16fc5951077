//! Waits for one of several channel operations. Go: `select`.
//!
//! The macro [`select!`](macro@crate::select) is the usual form. [`Select`] is for a number of cases that is known only
//! at run time.
//!
//! A select performs one of its cases, atomically, or none. Among the ready cases it chooses one at random with equal
//! probability; an [ordered](Select::ordered) select chooses the first. A select never exchanges a value with itself. A
//! channel may occur in several cases.
//!
//! The limit of a select, if it has one, competes like a further, last case, which is ready when the limit is over. So
//! in a loop around a select a channel that is always ready does not hide that the limit is over.
//!
//! # One successful attempt per case
//!
//! A [`Case`] takes part in one select: [`Select::new`] borrows the list for the lifetime of the cases, so the cases
//! cannot be used again. Another case can be made of the same [`RecvCase`], [`SendCase`] or [`SendFromCase`]. Each of
//! these types records the outcome of its last case, so a value that has been sent is not sent again.
//!
//! # Algorithm
//!
//! 1. Without locks, find the cases that seem to be ready, and whether the limit is over. Choose one of them, lock its
//!    channel, and try the case. Most selects finish here, with one lock. An ordered select tries only the first case in
//!    this step. The macro knows the types of its cases. So, unless the select is ordered, the macro does this step
//!    before it makes a list of the cases.
//! 2. If nothing seemed to be ready, or if the attempt failed, lock all channels, each once, and check again. This
//!    check is exact. If a case is ready, perform it. If no case is ready and the select must not wait, return: at this
//!    instant nothing was ready. A select that waits forever and is not ordered first tries to do steps 2 and 3
//!    together, case by case. If it comes to a channel that is locked or ready, it undoes this attempt and does step 2
//!    as described above.
//! 3. Put a waiter into the queue of each case, park, and unlock on the far side. The waiters are in the cases, which
//!    the macro keeps on the G's stack, and share one wait generation. Cases on the same channel queue in random order
//!    or, if the select is ordered, in the order of the list. A waker that finds one of the waiters claims the wait
//!    generation, moves the value, and readies the G.
//! 4. Remove the waiters of the other cases from their queues, one lock at a time.
//!
//! Go's `selectgo` starts with step 2.

#[expect(unsafe_code, reason = "keeps values in slots that may be empty")]
mod case;
mod choose;
mod locks;
mod macros;
mod parts;
#[expect(unsafe_code, reason = "keeps a value in a slot that may be empty")]
mod send;
#[expect(unsafe_code, reason = "moves values out of borrowed options")]
mod send_from;
mod sink;
mod source;

use core::mem;
use core::time::Duration;

#[doc(hidden)]
pub use case::Arm;
pub use case::{Case, RecvCase};
use choose::{choose, try_one};
pub(crate) use locks::{Locked, enter_all, leave_queues, unlock_all};
use locks::{enter_in_order, lock_all, unlock_each};
#[cfg(gmp_loom)]
pub(crate) use locks::{list_as_given, lock_in_order, sort_by_place};
#[doc(hidden)]
pub use parts::{Chosen, End, OneOf, Ready, Remaining};
pub use send::{SendCase, send};
pub use send_from::{SendFromCase, send_from};
pub use sink::Sink;
pub use source::{Source, recv};

use crate::base::atomic::Ordering;
use crate::engine::current::CurrentGoroutine;
use crate::engine::park::{park_with, ready_pinned};
use crate::engine::preempt::before_wait;
use crate::engine::windows::{At, Window};
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::wait_reason::{Awaited, WaitFor};
use crate::library::chan::Attempt;
use crate::library::limit::{ContextError, Limit};
use crate::library::waiter::wait_until;
use crate::platform::{Pinned, Platform};

/// A select over any number of cases. Go: `reflect.Select`.
///
/// ```
/// use gmp_sched::native::{self, channel, go};
/// use gmp_sched::select::{Select, recv};
///
/// unsafe { native::enter() }.run(2, || {
///     // One channel per G.
///     let receivers: Vec<_> = (0..10)
///         .map(|n| {
///             let (sender, receiver) = channel(0);
///             go(move || sender.send(n * n).unwrap()).detach();
///             receiver
///         })
///         .collect();
///     let mut sum = 0;
///     for _ in 0..10 {
///         // A closed channel is always ready, so omit it.
///         let open = receivers.iter().filter(|receiver| !receiver.is_closed());
///         let mut waiting: Vec<_> = open.map(recv).collect();
///         let mut cases: Vec<_> = waiting.iter_mut().map(|each| each.case()).collect();
///         let chosen = Select::new(&mut cases).wait();
///         if let Some(Ok(value)) = waiting.swap_remove(chosen).into_result() {
///             sum += value;
///         }
///     }
///     assert!(sum <= 285);
/// });
/// ```
#[derive(Debug)]
#[must_use = "a select does nothing before it waits or polls"]
pub struct Select<'a, Plat: Platform> {
    /// Borrowed for the lifetime of the cases, so that no other select can use them.
    cases: &'a mut [Case<'a, Plat>],
    choice: Choice,
    /// Whether step 1 of the algorithm has been done already.
    has_tried_one: bool,
}

/// Which of the ready cases is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// One of the ready cases, at random with equal probability.
    Random,
    /// The first ready case.
    First,
}

/// How long a select waits.
enum Patience<'a, Plat: Platform> {
    /// The select does not wait.
    None,
    /// The select waits forever.
    Full,
    /// The select waits until this limit is over. The flag says whether it was over when the select began.
    Until(&'a Limit<'a, Plat>, bool),
}

impl<Plat: Platform> Patience<'_, Plat> {
    /// Whether the limit was over when the select began, so that the limit competes with the cases.
    #[inline(always)]
    fn is_over(&self) -> bool {
        matches!(self, Self::Until(_, true))
    }
}

impl<'a, Plat: Platform> Select<'a, Plat> {
    /// Makes a select over `cases`, which are identified by their index. See [`Select`] for an example.
    ///
    /// The cases cannot be used again. A second select needs new cases, which can be made of the same values.
    ///
    /// ```
    /// use gmp_sched::native::channel;
    /// use gmp_sched::select::{Select, send};
    ///
    /// let (sender, receiver) = channel(0);
    /// let mut sending = send(&sender, 5);
    /// for _ in 0..2 {
    ///     assert_eq!(Select::new(&mut [sending.case()]).poll(), None);
    /// }
    /// # drop(receiver);
    /// ```
    #[inline]
    pub fn new(cases: &'a mut [Case<'a, Plat>]) -> Self {
        Self { cases, choice: Choice::Random, has_tried_one: false }
    }

    /// Makes a select like [`new`](Self::new), for a caller that has done step 1 of the algorithm.
    #[inline]
    fn after_step_1(cases: &'a mut [Case<'a, Plat>]) -> Self {
        Self { cases, choice: Choice::Random, has_tried_one: true }
    }

    /// Chooses the first ready case instead of a random one.
    ///
    /// The select performs a case only if no case before it is ready at the same instant. So if a value was sent to the
    /// first channel before another one was sent to the second channel, the value of the first channel is received
    /// first.
    ///
    /// ```
    /// use gmp_sched::native::{self, channel};
    /// use gmp_sched::select::{Select, recv};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (urgent, first) = channel(1);
    ///     let (usual, second) = channel(1);
    ///     usual.send("later").unwrap();
    ///     urgent.send("now").unwrap();
    ///     let (mut one, mut two) = (recv(&first), recv(&second));
    ///     assert_eq!(Select::new(&mut [one.case(), two.case()]).ordered().wait(), 0);
    /// });
    /// ```
    #[inline]
    pub fn ordered(mut self) -> Self {
        self.choice = Choice::First;
        self
    }

    /// Waits until a case is ready, performs it, and returns its index. Without cases it waits forever.
    ///
    /// Blocks the calling G; not callable from interrupts. See [`Select`] for an example.
    ///
    /// # Panics
    ///
    /// The call has to wait, although the caller is pinned or is not a G with a P.
    #[doc(alias = "selectgo")]
    #[inline]
    #[track_caller]
    pub fn wait(self) -> usize {
        self.run(Patience::Full).expect("nothing else ends this wait")
    }

    /// Performs a ready case and returns its index. Returns `None` if there was an instant at which no case was ready.
    /// Go: a `select` with `default`.
    ///
    /// Does not block, and may be called while pinned; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, channel};
    /// use gmp_sched::select::{Select, recv, send};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     let (mut receiving, mut sending) = (recv(&receiver), send(&sender, 1));
    ///     assert_eq!(Select::new(&mut [receiving.case(), sending.case()]).poll(), Some(1));
    ///     let mut sending = send(&sender, 2);
    ///     assert_eq!(Select::new(&mut [receiving.case(), sending.case()]).poll(), Some(0));
    /// });
    /// ```
    #[inline]
    pub fn poll(self) -> Option<usize> {
        self.run(Patience::None)
    }

    /// Waits like [`wait`](Self::wait), but no longer than `limit`, which is a deadline, a context or both. A limit
    /// that is over competes with the ready cases as one of them: it is chosen with the same probability. An
    /// [ordered](Self::ordered) select chooses the limit only if no case is ready.
    ///
    /// ```
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, Context, Receiver};
    /// use gmp_sched::select::{Select, recv};
    /// use gmp_sched::time::Instant;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let never = Receiver::<u8>::never();
    ///     let late = Select::new(&mut [recv(&never).case()]).wait_until(Instant::from_nanos(1));
    ///     assert_eq!(late, Err(ContextError::DeadlineExceeded));
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     cancel.cancel();
    ///     let cancelled = Select::new(&mut [recv(&never).case()]).wait_until(&context);
    ///     assert_eq!(cancelled, Err(ContextError::Canceled));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The limit was over, and no case was chosen.
    ///
    /// # Panics
    ///
    /// In the same cases as [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_until<'l>(self, limit: impl Into<Limit<'l, Plat>>) -> Result<usize, ContextError> {
        let limit = limit.into();
        self.run(Patience::Until(&limit, limit.err().is_some())).ok_or_else(|| limit.ended())
    }

    /// Waits like [`wait`](Self::wait), for `timeout` at most. Returns `None` if no case was chosen in time. Go: a case
    /// that receives from `time.After`. A `timeout` of zero is over at once, so it competes with the ready cases, as in
    /// [`wait_until`](Self::wait_until). To take a ready case in any event, use [`poll`](Self::poll).
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Receiver};
    /// use gmp_sched::select::{Select, recv};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let never = Receiver::<u8>::never();
    ///     assert_eq!(Select::new(&mut [recv(&never).case()]).wait_timeout(Duration::from_micros(10)), None);
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// In the same cases as [`wait_until`](Self::wait_until).
    #[track_caller]
    pub fn wait_timeout(self, timeout: Duration) -> Option<usize> {
        self.run(Patience::Until(&Limit::after(timeout), timeout.is_zero()))
    }

    #[inline]
    #[track_caller]
    fn run(self, patience: Patience<'_, Plat>) -> Option<usize> {
        if !matches!(patience, Patience::None) {
            before_wait::<Plat>();
        }
        let pinned = Pinned::of_scheduler();
        if !self.has_tried_one
            && let Some(chosen) = try_one(&pinned, self.cases, self.choice, patience.is_over())
        {
            return (chosen < self.cases.len()).then_some(chosen);
        }
        if matches!(patience, Patience::None) && self.cases.len() <= 1 {
            // Step 1 has found that there was an instant at which the only case, if any, was not ready; see
            // `Header::looks_ready`.
            return None;
        }
        match patience {
            Patience::Full if self.choice == Choice::Random => Some(wait_for_one_of_some(pinned, self.cases)),
            _ => with_all_locks(pinned, self.cases, self.choice, patience),
        }
    }
}

/// Steps 2 to 4 of a select that may choose any case and waits forever. First goes through the cases and, for each
/// case, locks the channel, checks the case, and queues on the channel. If a channel is already locked or a case seems
/// to be ready, undoes this, and starts again at step 2 with all channels locked.
///
/// Inlined into [`Remaining::wait`], where the number of cases is known, so that the loops are unrolled.
#[inline(always)]
#[track_caller]
fn wait_for_one<'a, Plat, C>(pinned: Pinned<Plat>, cases: &mut C) -> usize
where
    Plat: Platform,
    C: AsRef<[Case<'a, Plat>]> + AsMut<[Case<'a, Plat>]> + ?Sized,
{
    let caller = CurrentGoroutine::of(pinned);
    let window = Window::<Plat>::open(At::SelectQueues);
    let generation = caller.me.open_wait();
    if cases.as_ref().is_empty() || !enter_all(&caller.pinned, caller.me, generation, cases.as_mut()) {
        window.close();
        return with_all_locks(caller.pinned, cases.as_mut(), Choice::Random, Patience::Full)
            .expect("nothing else ends this wait");
    }
    // From here on the cases are only read, because the far side may still be in `unlock_each`, which reads them.
    let cases = &*cases;
    let (me, awaited) = (caller.me, cases.as_ref());
    let pinned = park_with(caller, WaitFor::new(WaitReason::Select, &awaited), |_, _| {
        unlock_each(cases.as_ref());
        true
    });
    window.close();
    leave_queues(&pinned, cases.as_ref(), me.woken_by.load(Ordering::Relaxed)).expect("one of them is the waker")
}

/// Does what [`wait_for_one`] does, for a number of cases that is known only at run time.
#[inline(never)]
#[track_caller]
fn wait_for_one_of_some<Plat: Platform>(pinned: Pinned<Plat>, cases: &mut [Case<'_, Plat>]) -> usize {
    wait_for_one(pinned, cases)
}

/// Locks all channels, then performs a ready case or waits for one (steps 2 to 4 of the algorithm).
#[inline(never)]
#[track_caller]
fn with_all_locks<Plat: Platform>(
    pinned: Pinned<Plat>,
    cases: &mut [Case<'_, Plat>],
    choice: Choice,
    patience: Patience<'_, Plat>,
) -> Option<usize> {
    let (locked, is_any_ready) = lock_all(&pinned, cases, choice);
    let is_over = patience.is_over();
    if (is_any_ready || is_over)
        && let Some((chosen, waiting)) = try_locked(&pinned, cases, choice, is_over)
    {
        unlock_all(cases, locked);
        if let Some(goroutine) = waiting {
            ready_pinned(&pinned, goroutine);
        }
        return (chosen < cases.len()).then_some(chosen);
    }
    match patience {
        Patience::Full => park(pinned, cases, locked, choice, None),
        // If the limit has ended since the select began, it ends the wait at once.
        Patience::Until(limit, _) => park(pinned, cases, locked, choice, Some(limit)),
        Patience::None => {
            unlock_all(cases, locked);
            None
        }
    }
}

/// Tries cases with all locks held (the second half of step 2 of the algorithm). A case that seems to be ready is
/// really ready, unless other wakers have ended the waits of all Gs on the other side of its channel. A failed attempt
/// removes the waiters of those Gs from the queue, so that the case no longer seems to be ready. If the limit `is_over`
/// and is chosen, returns `cases.len()` in place of an index.
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
            Choice::First => cases.iter().position(Case::looks_ready).or(is_over.then_some(cases.len()))?,
        };
        let Some(case) = cases.get(chosen) else { return Some((chosen, None)) };
        match case.attempt() {
            Attempt::Moved(waiting) => return Some((chosen, waiting)),
            Attempt::Closed => return Some((chosen, None)),
            Attempt::NotReady => {}
        }
    }
}

/// Queues on all channels, parks, and leaves the queues (steps 3 and 4 of the algorithm). The caller holds the locks
/// of all channels and has found no case ready.
#[track_caller]
fn park<Plat: Platform>(
    pinned: Pinned<Plat>,
    cases: &mut [Case<'_, Plat>],
    locked: Locked,
    choice: Choice,
    limit: Option<&Limit<'_, Plat>>,
) -> Option<usize> {
    let (caller, kept) = CurrentGoroutine::holding(pinned, Kept { cases, locked });
    mem::forget(kept);
    let window = Window::<Plat>::open(At::SelectQueues);
    let generation = caller.me.open_wait();
    enter_in_order(cases, locked, choice, caller.me, generation);
    // Without cases and without a limit, nothing can end the wait.
    let reason = if cases.is_empty() && limit.is_none() { WaitReason::SelectNoCases } else { WaitReason::Select };
    // Until this G has locked each channel again, the far side may still be in `unlock_all`, which reads the cases.
    // So from here on this G, too, only reads the cases.
    let cases_shared = &*cases;
    let me = caller.me;
    let wait_for = WaitFor::new(reason, &cases_shared);
    // These closures are `move`, because the G may run and end while the far side is still in `unlock_all`, if there
    // are no cases.
    let unlock = move || unlock_all(cases_shared, locked);
    let (pinned, waker) = match limit {
        None => {
            let pinned = park_with(caller, wait_for, move |_, _| {
                unlock();
                true
            });
            (pinned, me.woken_by.load(Ordering::Relaxed))
        }
        Some(limit) => {
            let waker = wait_until(caller, wait_for, generation, *limit, unlock);
            (Pinned::of_scheduler(), waker)
        }
    };
    window.close();
    leave_queues(&pinned, cases_shared, waker)
}

/// The locks that a select keeps while it prepares to park. Dropping this guard releases the locks, for example when
/// the select panics because its caller must not block.
struct Kept<'c, 'a, Plat: Platform> {
    cases: &'c [Case<'a, Plat>],
    locked: Locked,
}

impl<Plat: Platform> Drop for Kept<'_, '_, Plat> {
    fn drop(&mut self) {
        unlock_all(self.cases, self.locked);
    }
}

impl<Plat: Platform> Awaited for &[Case<'_, Plat>] {
    /// Whether each channel belongs to the caller's bubble or is a nil channel.
    #[cold]
    fn is_of_current_bubble(&self) -> bool {
        self.iter().all(Case::is_of_current_bubble)
    }
}
