//! Functions that run when a context is done.

use alloc::sync::Arc;
use core::fmt;

use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::library::limit::Node;
use crate::library::time::{AfterFunc, after_func_at};
use crate::platform::Platform;

/// A function that will run when a context is done, and that can be stopped before it runs. Dropping this handle lets
/// the function run. Go: the `stop` function that `context.AfterFunc` returns. See
/// [`Context::after_func`](super::Context::after_func) for an example.
pub struct ContextFunction<Plat: Platform> {
    holder: Holder<Plat>,
}

/// Where the function is stored until it is started or stopped.
enum Holder<Plat: Platform> {
    /// The function is stored in this node, under this key, because the context has not ended.
    Context(Arc<Node<Plat>>, usize),
    /// The function is stored in this handle, because the context never ends or had already ended.
    Handle(AfterFunc<Plat>),
}

impl<Plat: Platform> ContextFunction<Plat> {
    /// Prepares the function. At the deadline, the function's own timer starts it. At a cancellation, the context's
    /// [`Node`] starts it.
    #[track_caller]
    pub(crate) fn new(
        node: Option<&Arc<Node<Plat>>>,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<Self, OutOfResources> {
        let deadline = node.map_or(Instant::NEVER, |node| node.deadline());
        // Keeps the context alive while the function waits for the end of the context.
        let context = node.cloned();
        let function = after_func_at(deadline, move || {
            function();
            drop(context);
        })?;
        let Some(node) = node else { return Ok(Self { holder: Holder::Handle(function) }) };
        let holder = match node.add_function(function) {
            Ok(key) => Holder::Context(node.clone(), key),
            Err(function) => {
                function.start_now();
                Holder::Handle(function)
            }
        };
        Ok(Self { holder })
    }

    /// Stops the function if it has not been started, and returns whether it was stopped. The function's G drops a
    /// stopped function without running it.
    ///
    /// Does not block; callable on any thread, but not from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     let function = context.after_func(|| unreachable!());
    ///     assert!(function.stop());
    ///     cancel.cancel();
    /// });
    /// ```
    pub fn stop(self) -> bool {
        match self.holder {
            Holder::Context(node, key) => node.take_function(key).is_some_and(|function| function.take_back()),
            Holder::Handle(function) => function.take_back(),
        }
    }
}

impl<Plat: Platform> fmt::Debug for ContextFunction<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextFunction")
    }
}
