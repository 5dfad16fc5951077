//! What the layers above do when a node of the tree of cancellations is cancelled.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

use crate::base::error::OutOfResources;

/// A hook of a [node](super::Node), to be called when the node is cancelled.
pub(crate) trait OnEnd: Any + Send + Sync {
    /// Called at most once, by the caller that cancels the node, without the node's lock. Must not block.
    ///
    /// No hook is called when the deadline of the node passes. An owner of a hook that must act at the deadline, too,
    /// needs a timer.
    fn node_ended(&self);
}

impl<T: OnEnd> OnEnd for [T; 1] {
    fn node_ended(&self) {
        self[0].node_ended();
    }
}

/// An owned hook. Its type is known only to the code that sets the hook.
pub(crate) struct Hook(Box<dyn OnEnd>);

impl Hook {
    /// Allocates a hook. On stable Rust, safe code can allocate room for one value fallibly only as a vector, which
    /// then becomes a boxed array.
    pub(crate) fn new<T: OnEnd>(hook: T) -> Result<Self, OutOfResources> {
        let mut one = Vec::new();
        one.try_reserve_exact(1).map_err(|_| OutOfResources)?;
        one.push(hook);
        let one: Box<[T; 1]> = one.into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("it has one element"));
        Ok(Self(one))
    }

    /// The hook as a value of the type with which it was made.
    pub(crate) fn get<T: OnEnd>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref::<[T; 1]>().map(|[hook]| hook)
    }

    pub(super) fn call(&self) {
        self.0.node_ended();
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}
