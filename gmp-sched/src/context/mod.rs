//! The context switch: saving one flow of control and resuming another on its own stack.
//!
//! A context is its stack pointer; what has to survive lies on its stack. A switch carries a [`Transfer`] to the far
//! side in registers: what is to be done for the context that just left, once it is saved and its stack is no longer in
//! use (invariant 1 of the design: nobody may see a G before its context is saved).

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{prepare, switch};
#[cfg(not(target_arch = "x86_64"))]
compile_error!("the context switch is written for x86_64");

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
pub type Entry = extern "sysv64" fn(function: usize, subject: usize, argument: usize) -> !;
