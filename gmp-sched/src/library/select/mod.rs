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
//!    instant nothing was ready. A select that may wait and is not ordered first tries to do steps 2 and 3 together, case
//!    by case. If it comes to a channel that is locked or ready, it undoes this attempt and does step 2 as described
//!    above.
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
#[expect(unsafe_code, reason = "moves values to and from slots of any type")]
mod untyped;
mod wait;

use core::time::Duration;

#[doc(hidden)]
pub use case::Arm;
pub use case::RecvCase;
use choose::try_one;
#[cfg(gmp_loom)]
pub(crate) use locks::{enter_all, leave_queues, lock_in_order, sort, unlock_all};
#[doc(hidden)]
pub use parts::{Chosen, End, OneOf, Ready, Remaining};
pub use send::{SendCase, send};
pub use send_from::{SendFromCase, send_from};
pub use sink::Sink;
pub use source::{Source, recv};
pub use untyped::Case;
#[cfg(gmp_loom)]
pub(crate) use wait::try_locked;
use wait::{wait_for_one_of_some, with_all_locks};

use crate::engine::hooks::before_wait;
use crate::library::limit::{ContextError, Limit, Patience};
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
        self.run(Patience::Forever).expect("nothing else ends this wait")
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
        self.run(Patience::Never)
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
        self.run(Patience::Until(&limit)).ok_or_else(|| limit.ended())
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
        self.run(Patience::Until(&Limit::after(timeout)))
    }

    #[inline]
    #[track_caller]
    fn run(self, patience: Patience<'_, Plat>) -> Option<usize> {
        if patience.may_wait() {
            before_wait::<Plat>();
        }
        let pinned = Pinned::of_scheduler();
        let is_over = patience.limit().is_some_and(|limit| limit.err().is_some());
        if !self.has_tried_one
            && let Some(chosen) = try_one(&pinned, self.cases, self.choice, is_over)
        {
            return (chosen < self.cases.len()).then_some(chosen);
        }
        if !patience.may_wait() && self.cases.len() <= 1 {
            // Step 1 has found that there was an instant at which the only case, if any, was not ready; see
            // `Header::looks_ready`.
            return None;
        }
        if patience.may_wait() && !is_over && self.choice == Choice::Random {
            return wait_for_one_of_some(pinned, self.cases, patience);
        }
        with_all_locks(pinned, self.cases, self.choice, patience)
    }
}
