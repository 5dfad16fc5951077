//! The public interface of contexts.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::convert::Infallible;
use core::error::Error;
use core::fmt;
use core::time::Duration;

use super::{CancelHandle, ContextFunction, done};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::engine::hooks::before_wait;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::WaitReason;
use crate::library::chan::Receiver;
use crate::library::limit::{Cause, ContextError, Limit, Node};
use crate::library::time::now;
use crate::library::waiter::wait;
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

    /// Waits until the context is done, and returns why. Go: `<-ctx.Done()`. See [`with_timeout`](Self::with_timeout)
    /// for an example.
    ///
    /// Blocks the calling G, forever if the context is never done. Not callable from interrupts.
    ///
    /// # Panics
    ///
    /// The context is not done yet, and the caller is pinned or is not a G with a P.
    #[doc(alias = "Done")]
    #[track_caller]
    pub fn wait(&self) -> ContextError {
        loop {
            if let Err(error) = self.sleep_until(Instant::NEVER) {
                return error;
            }
        }
    }

    /// Returns a channel for use in a `select`. Nothing is sent on the channel, and it is closed when the context is
    /// done. Go: `Context.Done`.
    ///
    /// A cancellation closes the channel directly. If the context has a deadline, the first call also prepares a G that
    /// closes the channel at the deadline. Outside of a select, [`wait`](Self::wait) or an operation with a [`Limit`]
    /// costs less. Does not block; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context, channel};
    /// use gmp_sched::select;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     let (_work, queue) = channel::<u32>(1);
    ///     cancel.cancel();
    ///     let error = select! {
    ///         recv(queue) => None,
    ///         recv(context.done()) => context.err(),
    ///     };
    ///     assert!(error.is_some());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// There is no memory for the channel or the G; or the context has a deadline and the caller is not a G with a P.
    #[doc(alias = "Done")]
    #[must_use]
    #[track_caller]
    pub fn done(&self) -> Receiver<Infallible, Plat> {
        match self.try_done() {
            Ok(done) => done,
            Err(error) => panic!("cannot tell of the end of a context: {error}"),
        }
    }

    /// Like [`done`](Self::done), but returns an error if there is no memory.
    ///
    /// ```
    /// use gmp_sched::native::Context;
    ///
    /// assert!(!Context::background().try_done().unwrap().is_closed());
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory for the channel or the G; nothing has happened.
    ///
    /// # Panics
    ///
    /// The context has a deadline, and the caller is not a G with a P.
    #[track_caller]
    pub fn try_done(&self) -> Result<Receiver<Infallible, Plat>, OutOfResources> {
        done::channel(self.node.as_ref())
    }

    /// Sleeps for `duration`, or until the context is done.
    ///
    /// Blocks the calling G only; not callable from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     assert_eq!(Context::background().sleep(Duration::from_micros(10)), Ok(()));
    ///     let (context, _cancel) = Context::background().with_timeout(Duration::from_millis(1));
    ///     assert_eq!(context.sleep(Duration::from_secs(3600)), Err(ContextError::DeadlineExceeded));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The context was done before the sleep was over.
    ///
    /// # Panics
    ///
    /// The context is not done yet, and the caller is pinned or is not a G with a P.
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Result<(), ContextError> {
        self.sleep_until(now::<Plat>() + duration)
    }

    /// Sleeps like [`sleep`](Self::sleep), but until the point in time `when`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let soon = native::now() + Duration::from_millis(1);
    ///     assert_eq!(Context::background().sleep_until(soon), Ok(()));
    ///     assert!(native::now() >= soon);
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// In the same cases as [`sleep`](Self::sleep).
    ///
    /// # Panics
    ///
    /// In the same cases as [`sleep`](Self::sleep).
    #[track_caller]
    pub fn sleep_until(&self, when: Instant) -> Result<(), ContextError> {
        before_wait::<Plat>();
        self.check()?;
        let limit = Limit::from(self).and(when);
        let caller = CurrentGoroutine::<Plat>::new();
        let generation = caller.me.open_wait();
        wait(caller, WaitReason::Context, generation, Some(limit), || ());
        // If the sleep and the context are both over, the sleep counts as complete.
        if when <= now::<Plat>() { Ok(()) } else { self.check() }
    }

    /// Runs `function` in a new G when the context is done. Go: `context.AfterFunc`.
    ///
    /// This call makes the G, and the G is started when the context is done. If a G of a [bubble](crate#features)
    /// cancels the context, the new G starts in that bubble. Does not block; not callable from interrupts.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use gmp_sched::native::{self, Context};
    ///
    /// static RAN: AtomicBool = AtomicBool::new(false);
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     let function = context.after_func(|| RAN.store(true, Ordering::Relaxed));
    ///     cancel.cancel();
    ///     native::yield_now();
    ///     assert!(RAN.load(Ordering::Relaxed));
    ///     assert!(!function.stop());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// In the cases in which [`try_after_func`](Self::try_after_func) panics or returns an error.
    #[doc(alias = "AfterFunc")]
    #[track_caller]
    pub fn after_func(&self, function: impl FnOnce() + Send + 'static) -> ContextFunction<Plat> {
        match self.try_after_func(function) {
            Ok(function) => function,
            Err(error) => panic!("cannot prepare a G for a context: {error}"),
        }
    }

    /// Like [`after_func`](Self::after_func), but returns an error if there is no memory.
    ///
    /// # Errors
    ///
    /// There is no memory for the G, a timer or the context's hook; `function` is dropped, and nothing else has
    /// happened.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[track_caller]
    pub fn try_after_func(
        &self,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<ContextFunction<Plat>, OutOfResources> {
        ContextFunction::new(self.node.as_ref(), function)
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
