//! How long a G is willing to wait.

use core::fmt;
use core::time::Duration;

use super::node::Node;
use super::{Context, ContextError};
use crate::platform::Platform;
use crate::time::{Instant, now};

/// Until when to wait: a deadline, the end of a context, or whichever comes first.
///
/// Made from an [`Instant`], a [`Duration`] from now on, or a `&`[`Context`].
pub struct Limit<'a, P: Platform> {
    deadline: Instant,
    node: Option<&'a Node<P>>,
}

impl<P: Platform> Limit<'_, P> {
    /// No limit: to wait for as long as it takes.
    pub const NONE: Self = Self { deadline: Instant::NEVER, node: None };

    /// This limit or `deadline`, whichever comes first.
    #[must_use]
    pub fn and(self, deadline: Instant) -> Self {
        Self { deadline: self.deadline.min(deadline), ..self }
    }

    /// Whether one would wait in vain: the limit is over. If it is, a cancelled context comes before a deadline.
    #[must_use]
    pub fn err(&self) -> Option<ContextError> {
        let cause = self.node.and_then(Node::cause);
        let is_late = || self.deadline != Instant::NEVER && self.deadline <= now::<P>();
        cause.map(|cause| cause.error()).or_else(|| is_late().then_some(ContextError::DeadlineExceeded))
    }
}

impl<'a, P: Platform> Limit<'a, P> {
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
        now::<P>().after(duration).into()
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
