//! Why a context is done.

use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

/// Why a context is done. Go: `context.Canceled`, `context.DeadlineExceeded`.
///
/// ```
/// use gmp_sched::cancel::ContextError;
/// assert_eq!(ContextError::Canceled.to_string(), "context canceled");
/// assert_eq!(ContextError::DeadlineExceeded.to_string(), "context deadline exceeded");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextError {
    /// The context or an ancestor was cancelled.
    Canceled,
    /// The deadline of the context or of an ancestor has passed.
    DeadlineExceeded,
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Canceled => "context canceled",
            Self::DeadlineExceeded => "context deadline exceeded",
        })
    }
}

impl Error for ContextError {}

/// Why a context is done, and the error that was passed as the cause to
/// [`cancel_with`](crate::cancel::CancelHandle::cancel_with) or
/// [`with_deadline_cause`](crate::cancel::Context::with_deadline_cause), if any. Go: `context.Cause`.
///
/// ```
/// use gmp_sched::cancel::ContextError;
/// use gmp_sched::native::{self, Context};
///
/// unsafe { native::enter() }.run(1, || {
///     let (context, cancel) = Context::background().with_cancel();
///     cancel.cancel_with("out of paper");
///     let cause = context.cause().unwrap();
///     assert_eq!((cause.error(), cause.to_string()), (ContextError::Canceled, "out of paper".to_string()));
///     assert_eq!(cause.given().unwrap().to_string(), "out of paper");
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Cause {
    pub(crate) error: ContextError,
    pub(crate) given: Option<Arc<dyn Error + Send + Sync>>,
}

impl Cause {
    pub(crate) fn of(error: ContextError) -> Self {
        Self { error, given: None }
    }

    /// Whether the context was cancelled ([`Canceled`](ContextError::Canceled)) or its deadline passed
    /// ([`DeadlineExceeded`](ContextError::DeadlineExceeded)). See [`Cause`] for an example.
    #[must_use]
    pub fn error(&self) -> ContextError {
        self.error
    }

    /// The error that was passed as the cause, if any. See [`Cause`] for an example.
    #[must_use]
    pub fn given(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.given.as_deref()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.given {
            Some(given) => given.fmt(f),
            None => self.error.fmt(f),
        }
    }
}

impl Error for Cause {}
