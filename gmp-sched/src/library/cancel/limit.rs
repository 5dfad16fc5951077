//! How long an operation may wait.

use core::fmt;
use core::time::Duration;

use super::node::Node;
use super::{Context, ContextError};
use crate::base::instant::Instant;
use crate::library::time::now;
use crate::platform::Platform;

/// How long an operation may wait: until a deadline, until a context is done, or until the earlier of the two.
///
/// A limit is made from an [`Instant`], from a [`Duration`] from now, or from a `&`[`Context`]. The name of an
/// operation that takes a limit ends in `_until`. If the operation need not wait, it succeeds even when the limit is
/// over. Otherwise it waits, and returns an error if the limit ends the wait.
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
///     assert_eq!(receiver.recv_until(Duration::from_micros(10)), Err(RecvTimeoutError::Timeout));
///     cancel.cancel();
///     assert_eq!(receiver.recv_until(&request), Err(RecvTimeoutError::Canceled));
///     sender.send(7).unwrap();
///     assert_eq!(receiver.recv_until(&request), Ok(7));
///     sender.send(7).unwrap();
///     // A context and a deadline.
///     let limit = Limit::from(&request).and(native::now() + Duration::from_secs(1));
///     assert_eq!(Semaphore::new(0).acquire_until(0, limit).map(|_| ()), Ok(()));
///     assert_eq!(limit.err(), Some(ContextError::Canceled));
///     assert_eq!((receiver.recv_until(Limit::NONE), Limit::NONE.err()), (Ok(7), None));
/// });
/// ```
pub struct Limit<'a, P: Platform> {
    deadline: Instant,
    node: Option<&'a Node<P>>,
}

impl<P: Platform> Limit<'_, P> {
    /// No limit. See [`Limit`] for an example.
    pub const NONE: Self = Self { deadline: Instant::NEVER, node: None };

    /// Returns a limit that is over as soon as this limit is over or `deadline` has passed. See [`Limit`] for an
    /// example.
    #[must_use]
    pub fn and(self, deadline: Instant) -> Self {
        Self { deadline: self.deadline.min(deadline), ..self }
    }

    /// Returns an error if the limit is over. A cancellation takes precedence over a deadline. See [`Limit`] for an example.
    #[must_use]
    pub fn err(&self) -> Option<ContextError> {
        let cause = self.node.and_then(Node::cause);
        let is_late = || self.deadline != Instant::NEVER && self.deadline <= now::<P>();
        cause.map(|cause| cause.error()).or_else(|| is_late().then_some(ContextError::DeadlineExceeded))
    }
}

impl<'a, P: Platform> Limit<'a, P> {
    /// Why this limit ended a wait. If the limit does not seem to be over, the deadline ended the wait, because the
    /// clock of the CPU that fired the timer may be ahead of this CPU's clock.
    pub(crate) fn ended(&self) -> ContextError {
        self.err().unwrap_or(ContextError::DeadlineExceeded)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn node(&self) -> Option<&'a Node<P>> {
        self.node
    }
}

impl<P: Platform> Clone for Limit<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Limit<'_, P> {}

impl<P: Platform> From<Instant> for Limit<'_, P> {
    fn from(deadline: Instant) -> Self {
        Self { deadline, node: None }
    }
}

impl<P: Platform> From<Duration> for Limit<'_, P> {
    fn from(duration: Duration) -> Self {
        (now::<P>() + duration).into()
    }
}

impl<'a, P: Platform> From<&'a Context<P>> for Limit<'a, P> {
    fn from(context: &'a Context<P>) -> Self {
        Self { deadline: context.deadline().unwrap_or(Instant::NEVER), node: context.node() }
    }
}

impl<P: Platform> fmt::Debug for Limit<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit").field("deadline", &self.deadline).field("node", &self.node).finish()
    }
}
