//! Functions that run when a context is done.

use alloc::sync::Arc;
use core::fmt;

use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::library::limit::{Hook, Limit, Node, NotAdded, OnEnd};
use crate::library::time::{AfterFunc, after_func_at};
use crate::lifecycle::closure::__rust_begin_short_backtrace;
use crate::platform::Platform;

/// A function that will run when a context is done, and that can be stopped before it runs. Dropping this handle lets
/// the function run. Go: the `stop` function that `context.AfterFunc` returns. See
/// [`Context::after_func`](super::Context::after_func) for an example.
pub struct ContextFunction<Plat: Platform> {
    function: AfterFunc<Plat>,
    /// The node with a hook that starts the function, and the key of this hook. `None` if the context never ends or had
    /// already ended.
    hook: Option<(Arc<Node<Plat>>, usize)>,
}

impl<Plat: Platform> OnEnd for AfterFunc<Plat> {
    fn node_ended(&self) {
        self.start_now();
    }
}

impl<Plat: Platform> ContextFunction<Plat> {
    /// Prepares the function. At the deadline, the function's own timer starts it. At a cancellation, a hook of the
    /// context's [`Node`] starts it.
    #[track_caller]
    pub(super) fn new<F: FnOnce() + Send + 'static>(
        node: Option<&Arc<Node<Plat>>>,
        function: F,
    ) -> Result<Self, OutOfResources> {
        let deadline = node.map_or(Instant::NEVER, |node| node.deadline());
        // Keeps the context alive while the function waits for the end of the context.
        let context = node.cloned();
        let function = after_func_at::<Plat, F, _>(deadline, move || {
            __rust_begin_short_backtrace(function);
            drop(context);
        })?;
        let Some(node) = node else { return Ok(Self { function, hook: None }) };
        match Hook::new(function.same()).map_err(NotAdded::from).and_then(|hook| node.add_hook(hook)) {
            Ok(key) => Ok(Self { function, hook: Some((node.clone(), key)) }),
            Err(NotAdded::Ended(_)) => {
                function.start_now();
                Ok(Self { function, hook: None })
            }
            Err(NotAdded::NoMemory) => {
                function.take_back();
                Err(OutOfResources)
            }
        }
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
        if let Some((node, key)) = self.hook {
            drop(node.remove_hook(key));
        }
        self.function.take_back()
    }
}

impl<Plat: Platform> Limit<'_, Plat> {
    /// If the limit has a context, runs `function` in a new G when that context is done, and returns a handle that can
    /// stop the function. Without a context, drops `function`. Go: `context.AfterFunc`. Does not block; not callable
    /// from interrupts.
    ///
    /// This method is for a driver that blocks its M in a call. Such a call can end by itself at the
    /// [`deadline`](Self::deadline), but not when the context is done, because a context only readies parked Gs. So
    /// `function` has to end the call.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context, Limit, channel};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     let (sender, receiver) = channel(1);
    ///     let told = Limit::from(&context).when_context_is_done(move || sender.send(7).unwrap()).unwrap();
    ///     assert!(told.is_some());
    ///     cancel.cancel();
    ///     assert_eq!(receiver.recv(), Ok(7));
    ///     assert!(Limit::NONE.when_context_is_done(|| unreachable!()).unwrap().is_none());
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory for the G, a timer or the context's hook; `function` is dropped, and nothing else has
    /// happened.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[doc(alias = "AfterFunc")]
    #[track_caller]
    pub fn when_context_is_done(
        &self,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<Option<ContextFunction<Plat>>, OutOfResources> {
        self.node().map(|node| ContextFunction::new(Some(node), function)).transpose()
    }
}

impl<Plat: Platform> fmt::Debug for ContextFunction<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextFunction")
    }
}
