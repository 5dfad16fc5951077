//! Functions that run when a context is done.

use alloc::sync::Arc;
use core::fmt;

use super::node::Node;
use crate::library::time::{AfterFunc, Instant, after_func_at};
use crate::platform::{OutOfResources, Platform};

/// The right to take back a function that is to run when a context is done. Dropping it lets the function run. Go: the
/// `stop` function that `context.AfterFunc` returns. See [`Context::after_func`](super::Context::after_func) for
/// an example.
pub struct ContextFunction<P: Platform> {
    place: Place<P>,
}

/// Who has the function.
enum Place<P: Platform> {
    /// A context that can end, and under which key.
    With(Arc<Node<P>>, usize),
    /// Nobody: the context never ends, or it had ended before.
    Own(AfterFunc<P>),
}

impl<P: Platform> ContextFunction<P> {
    /// The deadline starts it by a timer of its own, a cancellation by way of the node.
    pub(super) fn new(
        node: Option<&Arc<Node<P>>>,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<Self, OutOfResources> {
        let deadline = node.map_or(Instant::NEVER, |node| node.deadline());
        // The context lives as long as something is to run when it is done.
        let context = node.cloned();
        let function = after_func_at(deadline, move || {
            function();
            drop(context);
        })?;
        let Some(node) = node else { return Ok(Self { place: Place::Own(function) }) };
        let place = match node.add_function(function) {
            Ok(key) => Place::With(node.clone(), key),
            Err(function) => {
                function.start_now();
                Place::Own(function)
            }
        };
        Ok(Self { place })
    }

    /// Takes the function back: tells whether this kept it from running. If so it is dropped, by its G.
    ///
    /// Does not block; callable on any thread, but not from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     let function = context.after_func(|| unreachable!()).unwrap();
    ///     assert!(function.stop());
    ///     cancel.cancel();
    /// });
    /// ```
    pub fn stop(self) -> bool {
        match self.place {
            Place::With(node, key) => node.take_function(key).is_some_and(|function| function.take_back()),
            Place::Own(function) => function.take_back(),
        }
    }
}

impl<P: Platform> fmt::Debug for ContextFunction<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextFunction")
    }
}
