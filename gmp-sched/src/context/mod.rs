//! The context switch: saving one flow of control and resuming another on its own stack.
//!
//! A context is its stack pointer; what has to survive lies on its stack. A switch carries a [`Transfer`] to the far
//! side in registers: what is to be done for the context that just left, once it is saved and its stack is no longer in
//! use (invariant 1 of the design: nobody may see a G before its context is saved).

use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(all(gmp_tsan, feature = "std"))]
pub(crate) mod fibers;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(all(gmp_tsan, feature = "std"))]
pub use fibers::switch;
#[cfg(all(feature = "control-words", target_feature = "sse", not(all(gmp_tsan, feature = "std"))))]
pub use switch_with_control_words as switch;
#[cfg(not(any(all(feature = "control-words", target_feature = "sse"), all(gmp_tsan, feature = "std"))))]
pub use switch_without_control_words as switch;
#[cfg(all(target_arch = "x86_64", target_feature = "sse"))]
pub use x86_64::switch_with_control_words;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{prepare, switch_without_control_words};
#[cfg(not(target_arch = "x86_64"))]
compile_error!("the context switch is written for x86_64");

/// Where the stack pointer of a context is kept while it does not run.
///
/// The one atomic that is not imported through `primitives`: the switch writes it in assembly, and loom, which could not
/// see that, never runs a switch.
#[derive(Debug, Default)]
pub struct SavedContext(AtomicUsize);

impl SavedContext {
    /// A context that [`prepare`] or nobody has made yet.
    #[must_use]
    pub const fn new(stack_pointer: usize) -> Self {
        Self(AtomicUsize::new(stack_pointer))
    }

    /// The stack pointer, for [`switch`] to resume.
    #[inline(always)]
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the context.
    #[inline(always)]
    pub fn set(&self, stack_pointer: usize) {
        self.0.store(stack_pointer, Ordering::Relaxed);
    }

    /// Where [`switch`] is to save the context that leaves.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut usize {
        self.0.as_ptr()
    }
}

/// Three words handed from the context that leaves to the one that resumes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Transfer {
    /// The function that the far side calls first, as an address; the two others are its arguments.
    pub function: usize,
    /// Who left.
    pub subject: usize,
    /// What else the function needs.
    pub argument: usize,
}

/// The function a fresh context starts in; its arguments are the words of the [`Transfer`]. It never returns: there is
/// nothing to return to.
pub type Entry = extern "sysv64" fn(subject: usize, argument: usize, function: usize) -> !;
