//! The context switch: saves one flow of control and resumes another on its own stack.
//!
//! A context consists of its stack pointer and the address at which it resumes; the rest of its state is on its stack.
//! A switch passes a [`Transfer`] in registers to the *far side*, the code that runs next. The transfer names a
//! function that the far side calls for the context that has just left. At the time of this call, the context that has
//! left is saved and its stack is no longer in use. So this function may make the G that has left visible to other Ms,
//! which the G itself must not do before the switch.
//!
//! ```
//! use core::mem::MaybeUninit;
//! use core::sync::atomic::{AtomicUsize, Ordering};
//! use gmp_sched::context::{self, SavedContext, Start, Transfer, Word};
//!
//! static HERE: SavedContext = SavedContext::new();
//! static THERE: SavedContext = SavedContext::new();
//! static RECEIVED: AtomicUsize = AtomicUsize::new(0);
//!
//! /// The other context: doubles the word that it gets, and switches back for ever.
//! struct Double;
//!
//! impl Start for Double {
//!     extern "sysv64" fn arrive(word: usize, _: Word, _: usize) {
//!         RECEIVED.store(word, Ordering::Relaxed);
//!     }
//!
//!     extern "sysv64" fn run(_context: usize) -> ! {
//!         let subject = 2 * RECEIVED.load(Ordering::Relaxed);
//!         let transfer = Transfer { function: 0, subject, argument: MaybeUninit::uninit() };
//!         // SAFETY: `HERE` was saved by the switch below, and nothing else resumes it.
//!         unsafe { context::resume(&HERE, transfer) }
//!     }
//! }
//!
//! let mut stack = vec![0u128; 4096];
//! // SAFETY: nothing else uses the stack, whose upper end is aligned, nor the context.
//! unsafe { context::prepare::<Double>(&THERE, stack.as_mut_ptr_range().end.expose_provenance()) };
//! let there = Transfer { function: 0, subject: 21, argument: MaybeUninit::uninit() };
//! // SAFETY: `THERE` was prepared above, and nothing else uses the two contexts. The stack is large enough.
//! let back = unsafe { context::switch(&HERE, &THERE, there) };
//! assert_eq!(back.subject, 42);
//! ```

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(target_arch = "x86_64")]
pub(crate) mod diverted;
#[cfg(all(gmp_tsan, feature = "std"))]
pub(crate) mod fibers;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(all(gmp_tsan, feature = "std"))]
pub use fibers::{resume, switch};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::is_fresh;
#[cfg(all(target_arch = "x86_64", feature = "std"))]
pub(crate) use x86_64::switch_with_clear_registers;
#[cfg(all(target_arch = "x86_64", feature = "refinements"))]
pub(crate) use x86_64::{FIRST_FRAME, relocate};
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

/// The saved state of a context that does not run. The assembly relies on the order of the fields.
///
/// The atomics are those of `core` and not those of `base::atomic`, because the assembly of the switch writes them, and
/// loom could not see these writes. loom never runs a switch.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SavedContext {
    stack_pointer: AtomicUsize,
    /// The address at which the context resumes. The address is stored here and not on the stack, so that a single
    /// `jmp` continues the context.
    resume: AtomicUsize,
    /// The address at which a context with a [detour](Self::add_detour) continues after `Visit::visit` has returned.
    resume_later: AtomicUsize,
}

impl SavedContext {
    /// Returns a context that must be [prepared](prepare) or saved before it is resumed.
    #[must_use]
    pub const fn new() -> Self {
        Self { stack_pointer: AtomicUsize::new(0), resume: AtomicUsize::new(0), resume_later: AtomicUsize::new(0) }
    }

    /// The saved stack pointer. The context must not be running.
    #[must_use]
    #[inline(always)]
    pub fn stack_pointer(&self) -> usize {
        self.stack_pointer.load(Ordering::Relaxed)
    }

    /// The address at which the context resumes, and the address of its saved frame pointer. The context must have run,
    /// and must not be running. If the context has a [detour](Self::add_detour), the first address is that of the code
    /// that calls `Visit::visit`.
    pub(crate) fn code_and_frame_pointer(&self) -> (usize, usize) {
        // A switch has pushed RBP and then RBX, so RBP is 8 bytes above the saved stack pointer.
        (self.resume.load(Ordering::Relaxed), self.stack_pointer() + 8)
    }

    /// Clears the saved stack pointer and the addresses at which the context resumes. Called only for a context that is
    /// running or is never resumed again.
    #[cfg(feature = "std")]
    pub(crate) fn forget(&self) {
        for word in [&self.stack_pointer, &self.resume, &self.resume_later] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Makes the context call `V::visit` on its own stack when the context is resumed the next time, before it
    /// continues. Only a caller that may resume the context may call this. Contexts without a detour are resumed as
    /// fast as if this function did not exist.
    pub(crate) fn add_detour<V: Visit>(&self) {
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
    fn set_resume(&self, resume: usize) {
        self.resume.store(resume, Ordering::Relaxed);
    }
}

/// The function that a context with a [detour](SavedContext::add_detour) calls before it continues.
pub(crate) trait Visit {
    /// Runs on the stack of the context when that context is resumed. `context` is the address of its
    /// [`SavedContext`]. When this function returns, the context continues and receives the [`Transfer`] of the switch
    /// that resumed it. Must not switch or unwind.
    extern "sysv64" fn visit(context: usize);
}

/// A word that may contain any value of at most its size, including a reference or a value with padding.
pub type Word = MaybeUninit<*const ()>;

/// Three words passed from the context that leaves to the one that is resumed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Transfer {
    /// The address of the function that the far side calls first. The other two words are its arguments.
    pub function: usize,
    /// The first argument of the function: the G or kernel thread that left.
    pub subject: usize,
    /// The second argument of the function.
    pub argument: Word,
}

/// What a fresh context does: it calls [`arrive`](Self::arrive), and then continues in [`run`](Self::run).
pub trait Start {
    /// Completes the switch that has started the context. The arguments are the words of the [`Transfer`]. Runs on the
    /// stack of the context. Must not unwind.
    extern "sysv64" fn arrive(subject: usize, argument: Word, function: usize);

    /// Runs on the stack of the context, at its upper end. The argument is the address of the context. This function
    /// does not return, because it has no caller.
    extern "sysv64" fn run(context: usize) -> !;
}
