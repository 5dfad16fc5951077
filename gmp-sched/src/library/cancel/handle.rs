//! The handle that cancels a context.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

use crate::library::limit::{Cause, ContextError, Node};
use crate::platform::Platform;

/// A handle that cancels its context when [`cancel`](Self::cancel) is called or when the handle is dropped. (The drop
/// does what `defer cancel()` does in Go.) See [`Context::with_cancel`](super::Context::with_cancel) for an example.
#[must_use = "dropping the handle cancels the context"]
pub struct CancelHandle<Plat: Platform> {
    /// `None` after [`keep`](Self::keep).
    pub(super) node: Option<Arc<Node<Plat>>>,
}

impl<Plat: Platform> CancelHandle<Plat> {
    /// Cancels the context and its descendants. The first cancellation or deadline determines the cause. Later ones do
    /// not change it. See [`Context::with_cancel`](super::Context::with_cancel) for an example. Go: `CancelFunc`.
    ///
    /// Takes time proportional to the number of descendants and waiting Gs. Does not block; callable on any thread,
    /// but not from interrupts.
    #[doc(alias = "CancelFunc")]
    pub fn cancel(&self) {
        self.cancel_for(&Cause::of(ContextError::Canceled));
    }

    /// Like [`cancel`](Self::cancel), but also takes the cause to report. Go: `CancelCauseFunc`.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     cancel.cancel_with("out of tea".to_string());
    ///     assert_eq!(context.err().unwrap().to_string(), "context canceled");
    ///     assert_eq!(context.cause().unwrap().to_string(), "out of tea");
    /// });
    /// ```
    #[doc(alias = "CancelCauseFunc")]
    pub fn cancel_with(&self, cause: impl Into<Box<dyn Error + Send + Sync>>) {
        self.cancel_for(&Cause { error: ContextError::Canceled, given: Some(cause.into().into()) });
    }

    fn cancel_for(&self, cause: &Cause) {
        if let Some(node) = &self.node {
            node.cancel(cause);
        }
    }

    /// Drops the handle without cancelling. Afterwards the context is done when one of its ancestors is cancelled, or
    /// when the deadline of the context passes.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     cancel.keep();
    ///     assert!(!context.is_done());
    /// });
    /// ```
    pub fn keep(mut self) {
        self.node = None;
    }
}

impl<Plat: Platform> Drop for CancelHandle<Plat> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl<Plat: Platform> fmt::Debug for CancelHandle<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle").field("node", &self.node).finish()
    }
}
