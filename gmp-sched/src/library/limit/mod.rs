//! How long an operation may wait.

mod cause;
mod hook;
mod node;
mod patience;
mod registry;

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use crate::base::instant::Instant;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::signal::Signal;
use crate::library::sleep::now;
use crate::library::wait_end::WaitEnd;
use crate::platform::{Pinned, Platform};
pub use cause::{Cause, ContextError};
pub(crate) use hook::{Hook, OnEnd};
pub(crate) use node::{Node, NotAdded};
pub(crate) use patience::Patience;

/// How long an operation may wait: until a deadline, until a context is done, or until the earlier of the two.
///
/// A limit is made from an [`Instant`], from a `&`[`Context`](crate::cancel::Context), or by [`after`](Self::after).
/// The name of an operation whose wait may be limited ends in `_until` if it takes a limit or an instant, except for
/// that of [`wait_limited`](crate::sync::LimitedCondvar::wait_limited). The name ends in `_timeout` if the operation
/// takes a [`Duration`]. (The methods of `lock_api` keep their names, such as `try_lock_for`.) If an operation with a
/// limit need not wait, it succeeds even when the limit is over. Otherwise it waits, and returns an error if the limit
/// ends the wait. (In a select, a limit that is over competes with the cases that are ready.)
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::cancel::ContextError;
/// use gmp_sched::chan::RecvTimeoutError;
/// use gmp_sched::native::{self, Context, Limit, Semaphore, channel};
///
/// unsafe { native::enter() }.run(1, || {
///     let (request, cancel) = Context::background().with_cancel();
///     let (sender, receiver) = channel(1);
///     assert_eq!(receiver.recv_until(Limit::after(Duration::from_micros(10))), Err(RecvTimeoutError::Timeout));
///     cancel.cancel();
///     assert_eq!(receiver.recv_until(&request), Err(RecvTimeoutError::Canceled));
///     sender.send(7).unwrap();
///     assert_eq!(receiver.recv_until(&request), Ok(7));
///     sender.send(7).unwrap();
///     // A context and a deadline.
///     let limit = Limit::from(&request).and(native::now() + Duration::from_secs(3600));
///     assert_eq!(Semaphore::new(0).acquire_until(0, limit).map(|_| ()), Ok(()));
///     assert_eq!(limit.err(), Some(ContextError::Canceled));
///     assert_eq!((receiver.recv_until(Limit::NONE), Limit::NONE.err()), (Ok(7), None));
/// });
/// ```
pub struct Limit<'a, Plat: Platform> {
    deadline: Instant,
    node: Option<&'a Arc<Node<Plat>>>,
}

impl<Plat: Platform> Limit<'_, Plat> {
    /// No limit. See [`Limit`] for an example.
    pub const NONE: Self = Self { deadline: Instant::NEVER, node: None };

    /// Returns a limit that is over after `duration` from now. See [`Limit`] for an example.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        (now::<Plat>() + duration).into()
    }

    /// Returns a limit that is over as soon as this limit is over or `deadline` has passed. See [`Limit`] for an
    /// example.
    #[must_use]
    pub fn and(self, deadline: Instant) -> Self {
        Self { deadline: self.deadline.min(deadline), ..self }
    }

    /// Returns why the limit is over, or `None` if it is not over. If the limit's context is done, returns why the
    /// context is done, even if the limit's deadline has passed, too. See [`Limit`] for an example.
    #[must_use]
    pub fn err(&self) -> Option<ContextError> {
        let cause = self.node.and_then(|node| node.cause());
        let is_late = || self.deadline != Instant::NEVER && self.deadline <= now::<Plat>();
        cause.map(|cause| cause.error()).or_else(|| is_late().then_some(ContextError::DeadlineExceeded))
    }
}

impl<'a, Plat: Platform> Limit<'a, Plat> {
    /// Makes a limit that is over when `node` ends.
    pub(crate) fn of(node: &'a Arc<Node<Plat>>) -> Self {
        Self { deadline: node.deadline(), node: Some(node) }
    }

    /// Returns why this limit ended a wait. If the limit is not over by this CPU's clock, the reason is the deadline:
    /// the timer was fired by another CPU, whose clock is ahead of this one.
    pub(crate) fn ended(&self) -> ContextError {
        self.err().unwrap_or(ContextError::DeadlineExceeded)
    }

    /// Returns the point in time at which the limit is over at the latest. The limit may be over earlier, because a
    /// context may be cancelled. Returns [`Instant::NEVER`] if there is no deadline.
    ///
    /// ```
    /// use gmp_sched::native::Limit;
    /// use gmp_sched::time::Instant;
    /// assert_eq!(Limit::NONE.and(Instant::from_nanos(7)).deadline(), Instant::from_nanos(7));
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether nothing ever ends a wait with this limit.
    pub(crate) fn is_none(&self) -> bool {
        self.deadline == Instant::NEVER && self.node.is_none()
    }

    pub(crate) fn node(&self) -> Option<&'a Arc<Node<Plat>>> {
        self.node
    }
}

impl<Plat: Platform> WaitEnd<Plat> for Limit<'_, Plat> {
    fn arm(self, pinned: &Pinned<Plat>, me: &'static Goroutine<Plat>, generation: WaitGeneration) {
        match self.node() {
            Some(node) => node.enqueue(pinned, me, generation, || self.deadline.arm(pinned, me, generation)),
            None => self.deadline.arm(pinned, me, generation),
        }
    }

    fn disarm(self, me: &'static Goroutine<Plat>) {
        if let Some(node) = self.node() {
            // When the G parked, the commit held the node's lock while it queued the waiter and armed the timer. (It
            // did neither if the node had ended.) `dequeue` takes the same lock. So when `dequeue` returns, the commit
            // does not arm the timer any more and no longer uses the node.
            node.dequeue(me);
        }
        WaitEnd::<Plat>::disarm(self.deadline, me);
    }
}

impl<Plat: Platform> Signal<Plat> {
    /// Like [`wait`](Self::wait), but waits no longer than `limit`, which is a deadline, a context or both. Returns
    /// whether the signal was raised. Blocks the calling G, not its M. Not callable from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::device_signals::Signal;
    /// use gmp_sched::native::{self, Context, Native, go, now};
    ///
    /// static DONE: Signal<Native> = Signal::new();
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     assert!(!DONE.wait_until(now() + Duration::from_micros(10)));
    ///     let (request, cancel) = Context::background().with_cancel();
    ///     let waits = go(move || DONE.wait_until(&request));
    ///     cancel.cancel();
    ///     assert!(!waits.join().unwrap(), "the context ended the wait");
    ///     DONE.raise();
    ///     assert!(DONE.wait_until(now()));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// In the same cases as [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_until<'l>(&'static self, limit: impl Into<Limit<'l, Plat>>) -> bool {
        self.wait_unless(limit.into())
    }
}

impl<Plat: Platform> Clone for Limit<'_, Plat> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Plat: Platform> Copy for Limit<'_, Plat> {}

impl<Plat: Platform> From<Instant> for Limit<'_, Plat> {
    fn from(deadline: Instant) -> Self {
        Self { deadline, node: None }
    }
}

impl<Plat: Platform> fmt::Debug for Limit<'_, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit").field("deadline", &self.deadline).field("node", &self.node).finish()
    }
}
