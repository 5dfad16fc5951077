//! The public interface of contexts.

mod waits;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::error::Error;
use core::fmt;
use core::time::Duration;

use super::CancelHandle;
use crate::base::instant::Instant;
use crate::library::limit::{Cause, ContextError, Limit, Node};
use crate::library::time::now;
use crate::platform::Platform;

/// A cancellation signal, a deadline and values, passed down a tree of calls. Go: `context.Context`.
///
/// A clone is the same context, and cloning is cheap. Deriving a context that can be cancelled allocates a heap cell,
/// and from time to time a larger table of the parent's children. Deriving a context with a value allocates two heap
/// cells. If there is no memory for a heap cell, the program ends, as with the types of `alloc`. If there is none for
/// the table, deriving panics, and the parent stays usable.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::cancel::ContextError;
/// use gmp_sched::native::{self, Context};
///
/// unsafe { native::enter() }.run(2, || {
///     let (request, cancel) = Context::background().with_cancel();
///     let (query, _cancel) = request.with_timeout(Duration::from_secs(60));
///     let worker = native::go(move || query.sleep(Duration::from_secs(3600)));
///     cancel.cancel();
///     assert_eq!(worker.join().unwrap(), Err(ContextError::Canceled));
///     assert_eq!(request.err().unwrap().to_string(), "context canceled");
/// });
/// ```
#[doc(alias = "context")]
pub struct Context<Plat: Platform> {
    node: Option<Arc<Node<Plat>>>,
    values: Option<Arc<Value>>,
}

/// A value of the context and a reference to the values of its ancestors.
struct Value {
    value: Arc<dyn Any + Send + Sync>,
    above: Option<Arc<Self>>,
}

impl Drop for Value {
    fn drop(&mut self) {
        // Drops the ancestors in a loop and not recursively, because this value may be the only owner of a chain of
        // any length.
        let mut above = self.above.take();
        while let Some(mut value) = above.and_then(Arc::into_inner) {
            above = value.above.take();
        }
    }
}

impl<Plat: Platform> Context<Plat> {
    /// The root of all contexts. It is never cancelled, and has no deadline and no values. Go: `context.Background`.
    ///
    /// ```
    /// use gmp_sched::native::Context;
    ///
    /// let context = Context::background();
    /// assert!(!context.is_done() && context.deadline().is_none() && context.check().is_ok());
    /// ```
    #[doc(alias = "Background")]
    #[doc(alias = "TODO")]
    #[must_use]
    pub const fn background() -> Self {
        Self { node: None, values: None }
    }

    /// Derives a context that can be cancelled without cancelling its parent. Go: `context.WithCancel`.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (request, cancel) = Context::background().with_cancel();
    ///     let (part, cancel_part) = request.with_cancel();
    ///     cancel_part.cancel();
    ///     assert!(part.is_done() && !request.is_done());
    ///     cancel.cancel();
    ///     assert!(request.is_done());
    /// });
    /// ```
    #[doc(alias = "WithCancel")]
    #[doc(alias = "WithCancelCause")]
    pub fn with_cancel(&self) -> (Self, CancelHandle<Plat>) {
        self.below(None)
    }

    /// Like [`with_cancel`](Self::with_cancel), but the derived context also has a deadline, after which it is done.
    /// Go: `context.WithDeadline`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let soon = native::now() + Duration::from_millis(1);
    ///     let (context, _cancel) = Context::background().with_deadline(soon);
    ///     assert_eq!(context.deadline(), Some(soon));
    ///     context.wait();
    ///     assert!(native::now() >= soon);
    /// });
    /// ```
    #[doc(alias = "WithDeadline")]
    pub fn with_deadline(&self, deadline: Instant) -> (Self, CancelHandle<Plat>) {
        self.below(Some((deadline, Cause::of(ContextError::DeadlineExceeded))))
    }

    /// Like [`with_deadline`](Self::with_deadline), but also takes the cause to report if the deadline passes. Go:
    /// `context.WithDeadlineCause`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let soon = native::now() + Duration::from_millis(1);
    ///     let (context, _cancel) = Context::background().with_deadline_cause(soon, "lunch time");
    ///     context.wait();
    ///     assert_eq!(context.cause().unwrap().to_string(), "lunch time");
    /// });
    /// ```
    #[doc(alias = "WithDeadlineCause")]
    pub fn with_deadline_cause(
        &self,
        deadline: Instant,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> (Self, CancelHandle<Plat>) {
        self.below(Some((deadline, Cause { error: ContextError::DeadlineExceeded, given: Some(cause.into().into()) })))
    }

    /// Like [`with_deadline`](Self::with_deadline), but the deadline is `timeout` from now. Go: `context.WithTimeout`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, _cancel) = Context::background().with_timeout(Duration::from_millis(1));
    ///     assert_eq!(context.wait(), ContextError::DeadlineExceeded);
    /// });
    /// ```
    #[doc(alias = "WithTimeout")]
    pub fn with_timeout(&self, timeout: Duration) -> (Self, CancelHandle<Plat>) {
        self.with_deadline(now::<Plat>() + timeout)
    }

    fn below(&self, deadline: Option<(Instant, Cause)>) -> (Self, CancelHandle<Plat>) {
        let node = Node::new(self.node.as_ref(), deadline);
        (Self { node: Some(node.clone()), values: self.values.clone() }, CancelHandle { node: Some(node) })
    }

    /// Derives a context with a value. The value is found by its type, so use a separate type for each purpose. Go:
    /// `context.WithValue`.
    ///
    /// ```
    /// use gmp_sched::native::Context;
    ///
    /// struct RequestId(u32);
    ///
    /// let context = Context::background().with_value(RequestId(7));
    /// assert_eq!(context.value::<RequestId>().unwrap().0, 7);
    /// assert!(context.value::<u32>().is_none());
    /// ```
    #[doc(alias = "WithValue")]
    #[must_use]
    pub fn with_value<T: Any + Send + Sync>(&self, value: T) -> Self {
        let values = Value { value: Arc::new(value), above: self.values.clone() };
        Self { node: self.node.clone(), values: Some(Arc::new(values)) }
    }

    /// Returns the innermost value of type `T`. Go: `Context.Value`. See [`with_value`](Self::with_value) for an
    /// example.
    #[doc(alias = "Value")]
    #[must_use]
    pub fn value<T: Any + Send + Sync>(&self) -> Option<&T> {
        let mut values = core::iter::successors(self.values.as_ref(), |value| value.above.as_ref());
        values.find_map(|value| value.value.downcast_ref())
    }

    /// Returns a context with the same values but without cancellation and deadline. Go: `context.WithoutCancel`.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (request, cancel) = Context::background().with_value("request 7").with_cancel();
    ///     cancel.cancel();
    ///     let clean_up = request.without_cancel();
    ///     assert!(!clean_up.is_done());
    ///     assert_eq!(clean_up.value(), Some(&"request 7"));
    /// });
    /// ```
    #[doc(alias = "WithoutCancel")]
    #[must_use]
    pub fn without_cancel(&self) -> Self {
        Self { node: None, values: self.values.clone() }
    }

    /// The earliest deadline of the context and its ancestors, or `None` if they have no deadline. At that instant the
    /// context is done, if it was not cancelled before. Go: `Context.Deadline`. See
    /// [`with_deadline`](Self::with_deadline) for an example.
    #[doc(alias = "Deadline")]
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.node.as_ref().map(|node| node.deadline()).filter(|&deadline| deadline != Instant::NEVER)
    }

    /// Whether the context was cancelled or its deadline has passed. A context that is done stays done. Callable from
    /// anywhere. See [`with_cancel`](Self::with_cancel) for an example.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.is_done())
    }

    /// Returns why the context is done, or `None` if it is not done. Go: `Context.Err`. See [`Context`] for an example.
    #[doc(alias = "Err")]
    #[must_use]
    pub fn err(&self) -> Option<ContextError> {
        self.cause().map(|cause| cause.error)
    }

    /// Like [`err`](Self::err), but returns a `Result`, for use with `?`.
    ///
    /// ```
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, Context};
    ///
    /// fn count_words(context: &Context, pages: &[&str]) -> Result<usize, ContextError> {
    ///     let mut words = 0;
    ///     for page in pages {
    ///         context.check()?;
    ///         words += page.split(' ').count();
    ///     }
    ///     Ok(words)
    /// }
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     assert_eq!(count_words(&context, &["to and fro"]), Ok(3));
    ///     cancel.cancel();
    ///     assert_eq!(count_words(&context, &["to and fro"]), Err(ContextError::Canceled));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The context is done.
    pub fn check(&self) -> Result<(), ContextError> {
        self.err().map_or(Ok(()), Err)
    }

    /// Returns why the context is done, with the error that was passed as the cause, if any. Returns `None` if the
    /// context is not done. Go: `context.Cause`. See [`Cause`] for an example.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.node.as_ref().and_then(|node| node.cause())
    }

    #[cfg(all(test, feature = "std"))]
    pub(crate) fn node(&self) -> Option<&Arc<Node<Plat>>> {
        self.node.as_ref()
    }
}

impl<'a, Plat: Platform> From<&'a Context<Plat>> for Limit<'a, Plat> {
    fn from(context: &'a Context<Plat>) -> Self {
        context.node.as_ref().map_or(Self::NONE, Self::of)
    }
}

impl<Plat: Platform> Default for Context<Plat> {
    fn default() -> Self {
        Self::background()
    }
}

impl<Plat: Platform> Clone for Context<Plat> {
    fn clone(&self) -> Self {
        Self { node: self.node.clone(), values: self.values.clone() }
    }
}

impl<Plat: Platform> fmt::Debug for Context<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("node", &self.node).finish_non_exhaustive()
    }
}
