//! The context switch: saving one flow of control and resuming another on its own stack.
//!
//! A context is its stack pointer and the address to go on at; what else has to survive lies on its stack. A switch carries a
//! [`Transfer`] to the far side in registers: what is to be done for the context that just left, once it is saved and its stack
//! is no longer in use (invariant 1 of the design: nobody may see a G before its context is saved).

use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(all(gmp_tsan, feature = "std"))]
pub(crate) mod fibers;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(all(gmp_tsan, feature = "std"))]
pub use fibers::{resume, switch};
#[cfg(all(target_arch = "x86_64", feature = "std", not(gmp_loom)))]
pub(crate) use x86_64::switch_with_clear_registers;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{is_fresh, relocate};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{prepare, resume_without_control_words, switch_without_control_words};
#[cfg(all(target_arch = "x86_64", target_feature = "sse"))]
pub use x86_64::{resume_with_control_words, switch_with_control_words};
#[cfg(all(feature = "control-words", target_feature = "sse", not(all(gmp_tsan, feature = "std"))))]
pub use {resume_with_control_words as resume, switch_with_control_words as switch};
#[cfg(not(any(all(feature = "control-words", target_feature = "sse"), all(gmp_tsan, feature = "std"))))]
pub use {resume_without_control_words as resume, switch_without_control_words as switch};
#[cfg(not(target_arch = "x86_64"))]
compile_error!("the context switch is written for x86_64");

/// A context while it does not run. The assembly knows the order of the fields.
///
/// The one place with atomics that are not imported through `primitives`: the switch writes them in assembly, and loom,
/// which could not see that, never runs a switch.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SavedContext {
    stack_pointer: AtomicUsize,
    /// Where it goes on. Not on the stack, whence it would have to be taken before the jump.
    resume: AtomicUsize,
    /// Where it goes on after its detour, if it makes one.
    resume_later: AtomicUsize,
    /// What a fresh one calls. Not on its stack, which stays untouched until it runs.
    entry: AtomicUsize,
}

impl SavedContext {
    /// Where `entry` is, for the assembly.
    const ENTRY: usize = offset_of!(Self, entry);

    /// A context that is to be [prepared](prepare) or saved before it is resumed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stack_pointer: AtomicUsize::new(0),
            resume: AtomicUsize::new(0),
            resume_later: AtomicUsize::new(0),
            entry: AtomicUsize::new(0),
        }
    }

    /// The stack pointer. Of a context that does not run.
    #[must_use]
    #[inline(always)]
    pub fn stack_pointer(&self) -> usize {
        self.stack_pointer.load(Ordering::Relaxed)
    }

    /// Clears what was saved, of a context that runs or is never resumed.
    #[cfg(all(feature = "std", not(gmp_loom)))]
    pub(crate) fn forget(&self) {
        for word in [&self.stack_pointer, &self.resume, &self.resume_later] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Has the context call `V::visit` on its own stack when it is resumed next, before it goes on. By whoever could resume
    /// it; costs those contexts nothing that make no detour.
    pub(crate) fn divert<V: Visit>(&self) {
        let detour = x86_64::detour::<V> as *const () as usize;
        let resume = self.resume.load(Ordering::Relaxed);
        if resume != detour {
            self.resume_later.store(resume, Ordering::Relaxed);
            self.resume.store(detour, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn set_stack_pointer(&self, stack_pointer: usize) {
        self.stack_pointer.store(stack_pointer, Ordering::Relaxed);
    }

    #[inline(always)]
    fn set_start(&self, resume: usize, entry: Entry) {
        self.resume.store(resume, Ordering::Relaxed);
        self.entry.store(entry as *const () as usize, Ordering::Relaxed);
    }
}

/// What a context does on a [detour](SavedContext::divert).
pub(crate) trait Visit {
    /// Called with the address of the context that was resumed, its own, before it knows who left and what is to be done for
    /// that one. Does not switch, or unwind.
    extern "sysv64" fn visit(context: usize);
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

/// The function a fresh context starts in; its arguments are the words of the [`Transfer`], and the address of the context
/// that was resumed, its own. It never returns: there is nothing to return to.
pub type Entry = extern "sysv64" fn(subject: usize, argument: usize, function: usize, context: usize) -> !;
