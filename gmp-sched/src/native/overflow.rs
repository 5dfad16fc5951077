//! Reports stack overflows of Gs: which G, and how large its stack is.
//!
//! The page below each stack is a guard page: touching it raises SIGSEGV. The handler runs on an alternate stack,
//! because the G's stack is exhausted, and does only what is async-signal-safe: it reads atomics and calls `write` and
//! `_exit`. (The standard library has such a handler, too, but it knows only the stacks of threads.)

use core::fmt::{self, Write};
use core::ops::Range;
use core::ptr;
use std::sync::OnceLock;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::panic_hook::Named;
use super::stack::{self, PAGE};
use super::{CURRENT, Native};
use crate::entities::goroutine::Goroutine;

/// The action that SIGSEGV had before [`install`]. It still handles each SIGSEGV that is not the overflow of a G's
/// stack.
static PREVIOUS: OnceLock<SigAction> = OnceLock::new();

/// Installs the handler, once per process.
pub(super) fn install() {
    PREVIOUS.get_or_init(|| {
        let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK;
        let action = SigAction::new(SigHandler::SigAction(handle), flags, SigSet::empty());
        #[expect(unsafe_code, reason = "changes the disposition of a signal")]
        // SAFETY: the handler is async-signal-safe.
        unsafe { sigaction(Signal::SIGSEGV, &action) }.expect("SIGSEGV may be handled")
    });
}

/// The signal handler.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    #[expect(unsafe_code, reason = "reads what the system passes to a signal handler")]
    // SAFETY: with SA_SIGINFO the system passes a valid pointer.
    let info_read = unsafe { &*info };
    #[expect(unsafe_code, reason = "reads a field of a union")]
    // SAFETY: a SIGSEGV has an address.
    let address = unsafe { info_read.si_addr() } as usize;
    if let Some(goroutine) = overflowed(address) {
        report(goroutine);
    }
    match PREVIOUS.get().map(SigAction::handler) {
        Some(SigHandler::SigAction(previous)) => previous(signal, info, context),
        Some(SigHandler::Handler(previous)) => previous(signal),
        // The default action is restored, so that the process ends when it repeats the access. (`None` means that
        // another thread is in `install`.)
        Some(SigHandler::SigDfl | SigHandler::SigIgn) | None => restore_default(),
    }
}

/// Makes the next SIGSEGV end the process.
fn restore_default() {
    let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    #[expect(unsafe_code, reason = "changes the disposition of a signal")]
    // SAFETY: the default action runs no code of the process.
    let restored = unsafe { sigaction(Signal::SIGSEGV, &action) };
    debug_assert!(restored.is_ok());
}

/// The G that runs on this thread, if `address` is in the guard page of its stack.
fn overflowed(address: usize) -> Option<&'static Goroutine<Native>> {
    let goroutine = CURRENT.get()?.current_goroutine()?;
    let bottom = goroutine.stack().start;
    (bottom - PAGE..bottom).contains(&address).then_some(goroutine)
}

/// Reports the overflow and ends the process with Go's status.
fn report(goroutine: &Goroutine<Native>) -> ! {
    let (stack, mut out) = (goroutine.stack(), Unbuffered);
    let _ = writeln!(
        out,
        "{} exceeds its stack of {} bytes (`Builder::stack_size` chooses a larger one)\nfatal error: stack overflow",
        Named(goroutine),
        stack.end - stack.start
    );
    #[expect(unsafe_code, reason = "ends the process without running what a signal handler may not")]
    // SAFETY: `_exit` is async-signal-safe.
    unsafe {
        libc::_exit(2)
    }
}

/// Standard error without a buffer and without a lock, because the G that overflowed may hold the lock.
struct Unbuffered;

impl Write for Unbuffered {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        #[expect(unsafe_code, reason = "writes from a signal handler")]
        // SAFETY: the bytes are those of `text`; `write` is async-signal-safe.
        unsafe {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        }
        Ok(())
    }
}

/// Ensures that the calling thread has an alternate stack for the handler until this value is dropped. Threads of
/// Rust's standard library already have one, but only in a program whose `main` is written in Rust.
pub(super) struct AlternateStack(Option<Range<usize>>);

/// The size of the alternate stack. It is enough for the handler and for the registers that the system saves, which
/// take up to 11 KiB with AVX-512 and AMX.
const ALTERNATE_BYTES: usize = 64 * 1024;

impl AlternateStack {
    pub(super) fn install() -> Self {
        if is_alternate_stack_set() {
            return Self(None);
        }
        // If there is no memory for the alternate stack, an overflow ends the process without a report.
        let Ok(stack) = stack::allocate(ALTERNATE_BYTES) else { return Self(None) };
        set_alternate_stack(&libc::stack_t {
            ss_sp: ptr::with_exposed_provenance_mut(stack.start),
            ss_flags: 0,
            ss_size: stack.len(),
        });
        Self(Some(stack))
    }
}

fn is_alternate_stack_set() -> bool {
    let mut current = NO_STACK;
    #[expect(unsafe_code, reason = "asks for the alternate stack")]
    // SAFETY: `current` is valid for writes.
    let asked = unsafe { libc::sigaltstack(ptr::null(), &raw mut current) };
    asked == 0 && current.ss_flags & libc::SS_DISABLE == 0
}

fn set_alternate_stack(stack: &libc::stack_t) {
    #[expect(unsafe_code, reason = "changes the alternate stack")]
    // SAFETY: `stack` either disables the alternate stack, or is memory that only this thread uses until the alternate
    // stack is disabled.
    unsafe {
        libc::sigaltstack(ptr::from_ref(stack), ptr::null_mut());
    }
}

const NO_STACK: libc::stack_t = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let Some(stack) = self.0.take() else { return };
        set_alternate_stack(&NO_STACK);
        #[expect(unsafe_code, reason = "unmaps the alternate stack")]
        // SAFETY: `install` allocated this stack, and the system no longer uses it.
        unsafe {
            stack::release(stack);
        }
    }
}
