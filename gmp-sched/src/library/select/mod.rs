//! Waiting for one of several channels. Go: `select`.
//!
//! The macro [`select!`](macro@crate::select) is the usual form; [`Select`] is for cases whose number is known only when the
//! program runs.
//!
//! A select does one of its cases, at one instant, or none. Of several that are ready it takes any, all with the same
//! probability, or, if it is [ordered](Select::ordered), the first. It never exchanges a value with itself; a channel
//! may stand in several cases.
//!
//! # One attempt that succeeds
//!
//! A [`Case`] takes part in one select: [`Select::new`] borrows the list of cases for as long as the cases live, so that
//! nobody can use them again. What a case was made from can make another, and knows by then how the first one ended: a value
//! that has been sent is not sent again.
//!
//! # How it goes
//!
//! 1. Look, without locks, which cases seem to be ready. Choose one of them, lock its channel, do it. Most selects are
//!    through after this, with one lock. The macro, which knows the types of its cases, does it before it makes a list of
//!    them.
//! 2. Nothing seemed to be ready: lock all channels, each once. Look again; now it is exact. If there is something, do
//!    it; if the select is not to wait, that was the instant at which nothing was ready. One that waits for ever for any
//!    case does this and the next in one go, case by case, and begins anew if it comes upon one that is ready or busy.
//! 3. Put a waiter, which lies in the case, on the G's stack, into the queue of each case, with one ticket for all, park,
//!    and unlock on the far side. Cases on the same channel queue in a random order, or, if the select is ordered, in theirs. Whoever comes upon one of the waiters claims the ticket, moves the value and readies the
//!    G.
//! 4. Take the waiters of the other cases out of their queues, one lock at a time.
//!
//! Go's `selectgo` begins with 2, with all locks, and has four passes as well.

#[expect(unsafe_code, reason = "keeps values in places that are not always full")]
mod case;
mod locks;
mod macros;
mod parts;
#[expect(unsafe_code, reason = "keeps a value in a place that is not always full")]
mod send;
#[expect(unsafe_code, reason = "moves values out of places that are borrowed")]
mod send_from;
mod source;

use core::mem;
use core::time::Duration;

#[doc(hidden)]
pub use case::Arm;
pub use case::{Case, RecvCase};
pub(crate) use locks::{Locked, enter_all, leave_queues, unlock_all};
use locks::{enter_in_order, lock_all, unlock_each};
#[cfg(gmp_loom)]
pub(crate) use locks::{list_as_given, lock_in_order, sort_by_address};
#[doc(hidden)]
pub use parts::{Chosen, Looked, OneOf, Ready};
pub use send::{SendCase, send};
pub use send_from::{SendFromCase, send_from};
pub use source::{Source, recv};

use crate::engine::caller::Caller;
use crate::engine::park::ready_pinned;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::library::cancel::{ContextError, Limit};
use crate::library::chan::{Attempt, unlock_and_ready};
use crate::library::waiter::{wait_for_any, wait_until};
use crate::platform::{Pinned, Platform};

/// A select over any number of cases. Go: `reflect.Select`.
///
/// ```
/// use gmp_sched::native::{self, channel, go};
/// use gmp_sched::select::{Select, recv};
///
/// unsafe { native::enter() }.run(2, || {
///     // One channel for each of the Gs.
///     let receivers: Vec<_> = (0..10)
///         .map(|n| {
///             let (sender, receiver) = channel(0);
///             go(move || sender.send(n * n).unwrap()).detach();
///             receiver
///         })
///         .collect();
///     let mut sum = 0;
///     for _ in 0..10 {
///         // A channel that is closed is always ready, so it is left out.
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
pub struct Select<'a, P: Platform> {
    /// Borrowed for as long as the cases live: no other select gets them.
    cases: &'a mut [Case<'a, P>],
    choice: Choice,
    /// Step 1 has been done.
    has_looked: bool,
}

/// Which of the cases that are ready is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Any.
    Random,
    /// The first.
    First,
}

/// Until when a select waits.
enum Patience<'a, P: Platform> {
    /// Not at all.
    None,
    /// For ever.
    Full,
    /// Until that is over.
    Until(&'a Limit<'a, P>),
}

impl<'a, P: Platform> Select<'a, P> {
    /// A select over `cases`, each of which is known by its place among them. See [`Select`] for an example.
    ///
    /// Nobody can use the cases after that: a second select needs new ones, which the same values make.
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
    pub fn new(cases: &'a mut [Case<'a, P>]) -> Self {
        Self { cases, choice: Choice::Random, has_looked: false }
    }

    /// [`new`](Self::new) for a caller that has looked which cases are ready, and found none, or one that was not any more.
    #[inline]
    fn after_look(cases: &'a mut [Case<'a, P>]) -> Self {
        Self { cases, choice: Choice::Random, has_looked: true }
    }

    /// Takes the first case that is ready, instead of any.
    ///
    /// It takes no case while one before it is ready, at that same instant: what was sent to the first case before
    /// something was sent to the second is received first.
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

    /// Waits until a case is ready, does it, and tells which. Without cases it waits for ever.
    ///
    /// Blocks the calling G; not callable from interrupts. See [`Select`] for an example.
    ///
    /// # Panics
    ///
    /// It has to wait, and the caller is not a G with a P, or is pinned.
    #[doc(alias = "selectgo")]
    #[inline]
    pub fn wait(self) -> usize {
        self.run(Patience::Full).expect("nothing else ends this wait")
    }

    /// Does a case that is ready and tells which; `None` if at one instant none was. Go: a `select` with `default`.
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

    /// [`wait`](Self::wait), but for as long as `limit` says (a deadline, a context). One that is over is as good as
    /// [`poll`](Self::poll): a case that is ready is done all the same. For a context that is to have the same chance as
    /// the others there is [`Context::done`](crate::library::cancel::Context::done).
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
    /// No case was ready before the limit was over.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_until<'l>(self, limit: impl Into<Limit<'l, P>>) -> Result<usize, ContextError> {
        let limit = limit.into();
        self.run(Patience::Until(&limit)).ok_or_else(|| limit.ended())
    }

    /// [`wait`](Self::wait), but no longer than `timeout`. Go: a case that receives from `time.After`.
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
    /// As [`wait_until`](Self::wait_until).
    pub fn wait_timeout(self, timeout: Duration) -> Option<usize> {
        self.run(Patience::Until(&timeout.into()))
    }

    #[inline]
    fn run(self, patience: Patience<'_, P>) -> Option<usize> {
        let pinned = Pinned::new();
        if !self.has_looked
            && let Some(chosen) = try_one(&pinned, self.cases, self.choice)
        {
            return Some(chosen);
        }
        if matches!(patience, Patience::None) && self.cases.len() <= 1 {
            // There was a moment at which the one case was not ready: see `Header::looks_ready`.
            return None;
        }
        match patience {
            Patience::Full if self.choice == Choice::Random => Some(wait_for_one_of_some(pinned, self.cases)),
            _ => with_all_locks(pinned, self.cases, self.choice, patience),
        }
    }
}

/// Step 1: chooses among the cases that seem to be ready, and tries that one.
#[inline]
fn try_one<P: Platform>(pinned: &Pinned<P>, cases: &[Case<'_, P>], choice: Choice) -> Option<usize> {
    // Each turn that fails is one in which somebody else got through.
    for _ in 0..cases.len() {
        let chosen = match choice {
            Choice::Random => choose(pinned, cases)?,
            // Another than the first may be taken only if the first is not ready at that instant: with all locks.
            Choice::First => cases.first().filter(|first| first.looks_ready()).map(|_| 0)?,
        };
        match cases[chosen].lock_and_attempt(pinned) {
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

/// One of the cases that seem to be ready, each as likely as the other.
#[inline]
fn choose<P: Platform>(pinned: &Pinned<P>, cases: &[Case<'_, P>]) -> Option<usize> {
    if cases.len() > u64::BITS as usize {
        return choose_of_many(pinned, cases);
    }
    let mut ready = 0u64;
    for (number, case) in cases.iter().enumerate() {
        ready |= u64::from(case.looks_ready()) << number;
    }
    choose_bit(pinned, ready)
}

/// The number of one of the bits that are set.
#[inline(always)]
fn choose_bit<P: Platform>(pinned: &Pinned<P>, mut bits: u64) -> Option<usize> {
    // Nearly always there is none, or one.
    if bits & bits.wrapping_sub(1) != 0 {
        for _ in 0..random_below(pinned, bits.count_ones()) {
            bits &= bits - 1;
        }
    }
    (bits != 0).then_some(bits.trailing_zeros() as usize)
}

/// [`choose`] where there are too many cases for the bits of a word: the nth that is ready takes the place of the choice so
/// far once in n times, which makes all equally likely (Vitter, *Random Sampling with a Reservoir*, 1985, algorithm R).
#[cold]
#[inline(never)]
fn choose_of_many<P: Platform>(pinned: &Pinned<P>, cases: &[Case<'_, P>]) -> Option<usize> {
    let (mut ready, mut chosen) = (0, None);
    for (number, case) in cases.iter().enumerate() {
        if case.looks_ready() {
            ready += 1;
            if random_below(pinned, ready) == 0 {
                chosen = Some(number);
            }
        }
    }
    chosen
}

/// A number below `limit`, each as likely as the other. Never panics: a select asks for it with locks held, also in a system
/// call and on a thread that is no M.
fn random_below<P: Platform>(pinned: &Pinned<P>, limit: u32) -> u32 {
    let processor = pinned.try_machine().and_then(Machine::processor);
    let random = processor.map_or_else(random_without_processor::<P>, Processor::random);
    ((u64::from(random) * u64::from(limit)) >> 32) as u32
}

/// The last digits of the clock, spread over the word (the finalizer of SplitMix64).
#[cold]
#[inline(never)]
fn random_without_processor<P: Platform>() -> u32 {
    let mut bits = P::now().as_nanos().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (bits >> 32) as u32
}

/// Steps 2 to 4 of the usual select, which may take any case and waits for ever: where none of the channels is busy, and none
/// is ready, it looks and queues in one go.
///
/// Inlined where the number of cases is known, as it is to the macro, each step is there as many times as there are cases:
/// nothing is counted.
#[inline(always)]
fn wait_for_one<'a, P, C>(pinned: Pinned<P>, cases: &mut C) -> usize
where
    P: Platform,
    C: AsRef<[Case<'a, P>]> + AsMut<[Case<'a, P>]> + ?Sized,
{
    let caller = Caller::of(pinned);
    let ticket = caller.me.open_wait();
    if cases.as_ref().is_empty() || !enter_all(&caller.pinned, caller.me, ticket, cases.as_mut()) {
        return with_all_locks(caller.pinned, cases.as_mut(), Choice::Random, Patience::Full)
            .expect("nothing else ends this wait");
    }
    // As in `park`.
    let cases = &*cases;
    let in_bubble = || reason_in_bubble(cases.as_ref(), WaitReason::Select);
    let unlock = || unlock_each(cases.as_ref());
    let (pinned, waker) = wait_for_any(caller, WaitReason::Select, in_bubble, unlock);
    leave_queues(&pinned, cases.as_ref(), waker).expect("one of them is the waker")
}

/// [`wait_for_one`] where only the program knows how many there are.
#[inline(never)]
fn wait_for_one_of_some<P: Platform>(pinned: Pinned<P>, cases: &mut [Case<'_, P>]) -> usize {
    wait_for_one(pinned, cases)
}

/// Steps 2 to 4.
#[inline(never)]
fn with_all_locks<P: Platform>(
    pinned: Pinned<P>,
    cases: &mut [Case<'_, P>],
    choice: Choice,
    patience: Patience<'_, P>,
) -> Option<usize> {
    let (locked, is_any_ready) = lock_all(&pinned, cases, choice);
    if is_any_ready && let Some((chosen, waiting)) = try_locked(&pinned, cases, choice) {
        unlock_all(cases, locked);
        if let Some(goroutine) = waiting {
            ready_pinned(&pinned, goroutine);
        }
        return Some(chosen);
    }
    match patience {
        Patience::Full => park(pinned, cases, locked, choice, None),
        Patience::Until(limit) if limit.err().is_none() => park(pinned, cases, locked, choice, Some(limit)),
        _ => {
            unlock_all(cases, locked);
            None
        }
    }
}

/// The rest of step 2, with all locks held: what seems to be ready is, unless whoever waits in a queue was woken from
/// elsewhere. An attempt that fails has emptied such a queue, so that it does not seem to be ready again.
#[cold]
#[inline(never)]
pub(crate) fn try_locked<P: Platform>(
    pinned: &Pinned<P>,
    cases: &[Case<'_, P>],
    choice: Choice,
) -> Option<(usize, Option<&'static Goroutine<P>>)> {
    loop {
        let chosen = match choice {
            Choice::Random => choose(pinned, cases)?,
            Choice::First => cases.iter().position(Case::looks_ready)?,
        };
        match cases[chosen].attempt() {
            Attempt::Moved(waiting) => return Some((chosen, waiting)),
            Attempt::Closed => return Some((chosen, None)),
            Attempt::NotReady => {}
        }
    }
}

/// Steps 3 and 4: all channels are locked, and none is ready.
fn park<P: Platform>(
    pinned: Pinned<P>,
    cases: &mut [Case<'_, P>],
    locked: Locked,
    choice: Choice,
    limit: Option<&Limit<'_, P>>,
) -> Option<usize> {
    let (caller, kept) = Caller::holding(pinned, Kept { cases, locked });
    mem::forget(kept);
    let ticket = caller.me.open_wait();
    enter_in_order(cases, locked, choice, caller.me, ticket);
    let reason = if cases.is_empty() { WaitReason::SelectNoCases } else { WaitReason::Select };
    // From here on until all channels have been locked once more the far side may still be at `unlock_all`: the cases
    // are only read.
    let cases_shared = &*cases;
    let in_bubble = || reason_in_bubble(cases_shared, reason);
    let unlock = || unlock_all(cases_shared, locked);
    let (pinned, waker) = match limit {
        None => wait_for_any(caller, reason, in_bubble, unlock),
        Some(limit) => {
            let waker = wait_until(caller, reason, in_bubble, ticket, *limit, unlock);
            (Pinned::new(), waker)
        }
    };
    leave_queues(&pinned, cases_shared, waker)
}

/// The locks of a select that may not block, which it is going to panic without.
struct Kept<'c, 'a, P: Platform> {
    cases: &'c [Case<'a, P>],
    locked: Locked,
}

impl<P: Platform> Drop for Kept<'_, '_, P> {
    fn drop(&mut self) {
        unlock_all(self.cases, self.locked);
    }
}

/// Why a G in a bubble waits: for that one only if each of the channels is of it, or of nobody.
#[cold]
fn reason_in_bubble<P: Platform>(cases: &[Case<'_, P>], reason: WaitReason) -> WaitReason {
    if cases.iter().all(Case::waits_within_bubble) { reason.within_bubble() } else { reason }
}
