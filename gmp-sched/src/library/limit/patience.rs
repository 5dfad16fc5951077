//! How long an operation may wait, as one value for all of its public forms.

use super::{ContextError, Limit};
use crate::platform::Platform;

/// How long an operation may wait. The public forms of an operation (`try_send`, `send_until`, `send`) differ only in
/// this value.
#[derive(Debug)]
pub(crate) enum Patience<'a, Plat: Platform> {
    /// Not at all. The operation ends like one whose deadline has passed.
    Never,
    /// Until the limit is over.
    Until(&'a Limit<'a, Plat>),
    /// Until the awaited event happens.
    Forever,
}

impl<'a, Plat: Platform> Patience<'a, Plat> {
    /// Whether an operation may wait at all.
    #[inline(always)]
    pub(crate) fn may_wait(&self) -> bool {
        !matches!(self, Self::Never)
    }

    /// Returns why an operation may not wait now, or `None` if it may wait.
    #[inline(always)]
    pub(crate) fn err(&self) -> Option<ContextError> {
        match self {
            Self::Never => Some(ContextError::DeadlineExceeded),
            Self::Until(limit) => limit.err(),
            Self::Forever => None,
        }
    }

    /// Returns what ends a wait, or `None` if only the awaited event ends it.
    #[inline(always)]
    pub(crate) fn limit(&self) -> Option<&'a Limit<'a, Plat>> {
        match self {
            Self::Until(limit) => Some(limit),
            Self::Never | Self::Forever => None,
        }
    }
}

impl<Plat: Platform> Clone for Patience<'_, Plat> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Plat: Platform> Copy for Patience<'_, Plat> {}
