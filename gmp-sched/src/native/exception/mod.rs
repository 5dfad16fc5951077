//! Reports exceptions of Gs: invalid memory accesses, divisions by zero, invalid instructions.
//!
//! The operating system turns the processor's exception into a signal. A signal handler may do almost nothing, so the
//! handler here only diverts the G, as Go's runtime does. When the handler returns, the G continues at
//! [`__rust_end_short_backtrace`], on a new stack. This function calls [`raised`] as if the instruction that raised the
//! exception had called it. So the backtrace of the report shows the instruction. The G never continues after that
//! instruction. [`report`](mod@report) describes how the report is made.
//!
//! If the program has set a hook, the G calls it on its own stack, because the hook may end only the G:
//!
//! ```text
//!   ├──────────────────────────────┤ ◀─ stack pointer at the exception
//!   │ red zone               128   │    not written
//!   ├──────────────────────────────┤
//!   │ Frame                        │ ◀─ stack pointer of the entry
//!   ├──────────────────────────────┤
//!   │ the hook                     │
//! ```
//!
//! If the program has installed a handler of its own before, that handler runs first, because it may resolve the
//! exception. If the code that raised the exception is not that of a G, or if a process has sent the signal, the
//! default action ends the process. If the process ignored the signal before the handler was installed, a sent signal
//! is still ignored.

mod description;
mod report;

use core::arch::naked_asm;
use core::cell::Cell;
use core::fmt::Write as _;
use core::ptr;
use core::sync::atomic::Ordering;
use std::sync::OnceLock;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::overflow::Unbuffered;
use super::{Native, current, stack};
use crate::base::id::GoroutineId;
use crate::context::diverted::{MODES, RED_ZONE};
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::native::panic_hook::Named;

pub use description::Exception;

/// The signals of exceptions, each with the action that it had before [`install`]. SIGSEGV is not among them, because
/// its handler is in `overflow`.
static OTHERS: [(Signal, OnceLock<SigAction>); 3] =
    [(Signal::SIGBUS, OnceLock::new()), (Signal::SIGFPE, OnceLock::new()), (Signal::SIGILL, OnceLock::new())];

/// Installs the handler for the signals of [`OTHERS`], once per process.
pub(super) fn install() {
    for (signal, previous) in &OTHERS {
        previous.get_or_init(|| set_handler(*signal, handle_other));
    }
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Sets the handler of a signal, and returns the action that the signal had before.
pub(super) fn set_handler(signal: Signal, handler: Handler) -> SigAction {
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK;
    let action = SigAction::new(SigHandler::SigAction(handler), flags, SigSet::empty());
    // SAFETY: the handlers of this module and of `overflow` are async-signal-safe.
    unsafe { sigaction(signal, &action) }.expect("this signal may be handled")
}

/// The handler of the signals of [`OTHERS`].
extern "C" fn handle_other(number: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let own = OTHERS.iter().find(|(signal, _)| *signal as libc::c_int == number);
    let Some((signal, previous)) = own else { return };
    end_if_in_commit(*signal);
    // SAFETY: the system has passed both pointers to this handler, and `handle_other` is the handler of this signal.
    unsafe {
        handle(*signal, previous.get(), handle_other, info, context);
    }
}

/// If the interrupted code is the commit of a park, ends the process. The commit runs on the stack of another G or of
/// g0, so no G can be diverted to report its exception or the overflow of its stack.
pub(super) fn end_if_in_commit(signal: Signal) {
    let Some(parks) = current::get().and_then(Machine::committing) else { return };
    let what = if signal == Signal::SIGSEGV { "stack overflow or invalid memory access" } else { "exception" };
    let _ = writeln!(Unbuffered, "fatal error: {what} ({signal}) in the commit of a park: {} parks", Named(parks));
    // SAFETY: `_exit` is async-signal-safe.
    unsafe { libc::_exit(2) }
}

/// Handles a signal of an exception that is not the overflow of a stack. `previous` is the action that the signal had
/// before its handler `own` was installed. `previous` is `None` if another thread has installed `own` but not stored
/// the action yet.
///
/// A previous handler is called first. If it sets the default action, it has declined the exception: the process would
/// end when the instruction is repeated. The handler of the standard library does this. Otherwise the previous handler
/// has resolved the exception, and the instruction is repeated. If there is no previous handler, the exception counts
/// as declined.
///
/// # Safety
///
/// `info` and `context` are what the system has passed to the handler of `signal`. The call of this function is the
/// last action of that handler.
pub(super) unsafe fn handle(
    signal: Signal,
    previous: Option<&SigAction>,
    own: Handler,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let is_declined = match previous.map(SigAction::handler) {
        Some(SigHandler::SigAction(previous)) => {
            previous(signal as libc::c_int, info, context);
            is_default(signal)
        }
        Some(SigHandler::Handler(previous)) => {
            previous(signal as libc::c_int);
            is_default(signal)
        }
        Some(SigHandler::SigDfl | SigHandler::SigIgn) | None => true,
    };
    if !is_declined {
        return;
    }
    // SAFETY: the system has passed a valid pointer, because the handler was installed with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    let is_sent = code <= 0;
    let was_ignored = matches!(previous.map(SigAction::handler), Some(SigHandler::SigIgn));
    if is_sent && was_ignored {
        return;
    }
    if !is_sent && let Some(goroutine) = faulty() {
        set_handler(signal, own);
        // SAFETY: the system has passed a valid pointer, because the handler was installed with SA_SIGINFO. No other
        // reference to the context exists, because the previous handler has returned.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        divert(goroutine, registers);
        return;
    }
    set_default(signal);
    if is_sent {
        // Raise the signal again. (An exception would come again by itself when the instruction is repeated.)
        // SAFETY: `raise` is async-signal-safe. The default action takes effect when this handler returns.
        unsafe { libc::raise(signal as libc::c_int) };
    }
}

/// Sets the default action of a signal, which ends the process.
pub(super) fn set_default(signal: Signal) {
    let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of the process.
    let set = unsafe { sigaction(signal, &action) };
    debug_assert!(set.is_ok());
}

/// Whether a signal has its default action.
fn is_default(signal: Signal) -> bool {
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` is valid for writes.
    let asked = unsafe { libc::sigaction(signal as libc::c_int, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeros are a valid `sigaction`.
    let action = unsafe { action.assume_init() };
    asked == 0 && action.sa_sigaction == libc::SIG_DFL
}

/// Whether an exception or a stack overflow is being reported, after which the process ends.
pub(super) fn is_reporting() -> bool {
    report::IS_REPORTING.load(Ordering::Relaxed)
}

std::thread_local! {
    /// The last G that raised an exception on this thread.
    static LAST: Cell<Option<GoroutineId>> = const { Cell::new(None) };
}

/// The G that was running on this thread when an exception was raised. `None` if no G runs here, or if the G has raised
/// an exception before, so that this exception comes from the report itself.
fn faulty() -> Option<&'static Goroutine<Native>> {
    current::get()?.current_goroutine().filter(|goroutine| is_first(goroutine))
}

/// Whether `goroutine`, which runs on this thread, has not raised an exception before. After an exception a G runs
/// nothing but the report.
pub(super) fn is_first(goroutine: &Goroutine<Native>) -> bool {
    LAST.replace(Some(goroutine.id())) != Some(goroutine.id())
}

pub(super) type Registers = [libc::greg_t; 23];

/// The value that the handler writes to the stack on which [`__rust_end_short_backtrace`] will run.
#[repr(C)]
struct Frame {
    start: Start,
    cause: Cause,
}

/// Where a backtrace begins.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Start {
    /// The address of an instruction. Normally this is the instruction that raised the exception. If the code has
    /// called an invalid pointer, this is the call instruction.
    pub(super) instruction: u64,
    /// The stack pointer at this instruction.
    pub(super) stack_pointer: u64,
    /// Whether the name of the function that contains the instruction is not shown, because it may be wrong.
    pub(super) is_uncertain: bool,
}

/// Why a G is diverted.
enum Cause {
    Exception(Exception),
    /// This G has overflowed its stack.
    Overflow(&'static Goroutine<Native>),
}

/// The room that a hook needs on the stack of the G.
const HOOK_BYTES: usize = 48 * 1024;
/// The size of the stack on which the report is made. The function that looks up the names needs most of it.
const REPORT_BYTES: usize = 1024 * 1024;

/// Makes the G report the exception, or call the hook, when the handler returns. If there is no memory for the stack on
/// which the G reports, prints only a line, and ends the process. If there is a hook, does the same in two cases: the
/// G's stack has no room for it, or code of a library has raised the exception. Such code may hold a lock that the hook
/// needs.
fn divert(goroutine: &'static Goroutine<Native>, registers: &mut Registers) {
    let get = |register: libc::c_int| registers[register as usize].cast_unsigned();
    let (mut instruction, mut stack_pointer) = (get(libc::REG_RIP), get(libc::REG_RSP));
    let exception = Exception {
        goroutine,
        vector: get(libc::REG_TRAPNO),
        error: get(libc::REG_ERR),
        address: get(libc::REG_CR2),
        instruction,
    };
    let stack = goroutine.stack();
    let new = (stack_pointer.wrapping_sub(RED_ZONE) as usize).wrapping_sub(size_of::<Frame>()) & !15;
    let is_word_on_stack = stack.contains(&(stack_pointer as usize))
        && (stack_pointer as usize).checked_add(8).is_some_and(|end| end <= stack.end);
    if exception.is_fetch() && is_word_on_stack {
        let last_word = ptr::with_exposed_provenance::<u64>(stack_pointer as usize);
        // SAFETY: the word is at the stack pointer of the G, which does not run, and is on the G's stack, as was
        // checked above.
        let caller = unsafe { last_word.read_unaligned() };
        // If the program has called an invalid pointer, the last word on the stack is the return address, and the
        // backtrace begins at the call instruction, which is just before that address.
        if is_own_code(caller) {
            (instruction, stack_pointer) = (caller - 1, stack_pointer + 8);
        }
    }
    let start = Start { instruction, stack_pointer, is_uncertain: false };
    let cause = Cause::Exception(exception);
    if HOOK.get().is_none() {
        if !divert_to_new_stack(Frame { start, cause }, registers) {
            end_at_once(&exception);
        }
        return;
    }
    if new < stack.start + HOOK_BYTES || !is_word_on_stack || !is_own_code(instruction) {
        end_at_once(&exception);
    }
    // SAFETY: the address is aligned to 16 bytes, on the G's stack, and below all that the G uses there. At least
    // `HOOK_BYTES` of the stack are below it.
    unsafe {
        continue_at_entry(new, Frame { start, cause }, registers);
    }
}

/// Makes `goroutine`, which has overflowed its stack, print its backtrace when the handler of SIGSEGV returns, and then
/// end the process. The backtrace begins at `start`. Returns `false` if there is no memory for the stack on which the G
/// reports.
pub(super) fn divert_after_overflow(
    goroutine: &'static Goroutine<Native>,
    start: Start,
    registers: &mut Registers,
) -> bool {
    divert_to_new_stack(Frame { start, cause: Cause::Overflow(goroutine) }, registers)
}

/// Makes the interrupted code continue on a new stack with `frame`. Returns `false` if there is no memory for the
/// stack.
fn divert_to_new_stack(frame: Frame, registers: &mut Registers) -> bool {
    // For this size `allocate` takes no lock. It only makes system calls.
    const { assert!(REPORT_BYTES != stack::DEFAULT) };
    let Ok(stack) = stack::allocate(REPORT_BYTES) else { return false };
    let new = (stack.end - size_of::<Frame>()) & !15;
    // SAFETY: the address is aligned to 16 bytes, at the upper end of a stack that nothing else uses.
    unsafe {
        continue_at_entry(new, frame, registers);
    }
    true
}

/// Writes `frame` to the address `new`, and makes the interrupted code continue at [`__rust_end_short_backtrace`] with
/// this frame.
///
/// # Safety
///
/// `new` is a multiple of 16. The frame and `HOOK_BYTES` below it are unused memory of a stack.
unsafe fn continue_at_entry(new: usize, frame: Frame, registers: &mut Registers) {
    // SAFETY: the caller promises that the memory is aligned and unused.
    unsafe { ptr::with_exposed_provenance_mut::<Frame>(new).write(frame) };
    registers[libc::REG_EFL as usize] &= !MODES.cast_signed();
    registers[libc::REG_RDI as usize] = new as libc::greg_t;
    registers[libc::REG_RSP as usize] = new as libc::greg_t;
    registers[libc::REG_RIP as usize] = __rust_end_short_backtrace as *const () as libc::greg_t;
}

/// Whether an address is in the code of the program's executable file, and not in a shared library.
fn is_own_code(address: u64) -> bool {
    // The linker defines both symbols. Only their addresses are used.
    unsafe extern "C" {
        safe static __executable_start: u8;
        safe static etext: u8;
    }
    (&raw const __executable_start as u64..&raw const etext as u64).contains(&address)
}

/// Calls [`raised`]. The handler has set the stack pointer and RDI to the address of a [`Frame`], and has left all
/// other general registers as they were at the exception. The unwind table describes where the `Frame` contains the
/// instruction and the stack pointer of the exception. Because of its name, a shortened backtrace begins after this
/// function.
#[unsafe(naked)]
extern "C" fn __rust_end_short_backtrace() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_signal_frame",
        // The canonical frame address is the word at RSP + 8: DW_CFA_def_cfa_expression, DW_OP_breg7 8, DW_OP_deref.
        ".cfi_escape 0x0f, 3, 0x77, 8, 0x06",
        // The return address is at RSP: DW_CFA_expression, register 16, DW_OP_breg7 0.
        ".cfi_escape 0x10, 16, 2, 0x77, 0",
        "call {raised}",
        "ud2",
        ".cfi_endproc",
        raised = sym raised,
    )
}

static HOOK: OnceLock<fn(&Exception)> = OnceLock::new();

/// Sets the function that reports an exception of a G, for all schedulers of this process. Returns whether this is the
/// first call; later calls have no effect.
///
/// The G that raised the exception calls `hook`, as if the instruction that raised it were a call of `hook`. The G may
/// hold locks, so `hook` must not wait or yield. When `hook` returns, the process ends with status 2. Instead of
/// returning, `hook` may end only the G, by [`abandon`](crate::exit::abandon). Without a hook, the exception, a
/// backtrace and the list of all Gs are printed on standard error.
///
/// `hook` is not called if code of a shared library raised the exception, or if the G's stack has no 48 KiB left. Then
/// one line about the exception is printed, and the process ends. Nor is it called for a stack overflow, which has a
/// report of its own.
///
/// Callable from any thread; does not block. Go: `sigpanic`.
#[doc(alias = "sigpanic")]
pub fn set_exception_hook(hook: fn(&Exception)) -> bool {
    HOOK.set(hook).is_ok()
}

/// Calls the hook or, if there is none or the cause is a stack overflow, reports the exception. Then ends the process.
/// Runs after the signal handler has returned.
extern "C" fn raised(frame: &Frame) -> ! {
    match (&frame.cause, HOOK.get()) {
        (Cause::Exception(exception), Some(hook)) => hook(exception),
        _ => report::print(frame),
    }
    end_process()
}

/// Reports an exception in one line from the signal handler, and ends the process.
fn end_at_once(exception: &Exception) -> ! {
    let _ = writeln!(Unbuffered, "{exception}, by the instruction at {:#018x}", exception.instruction);
    end_process()
}

fn end_process() -> ! {
    // SAFETY: `_exit` is async-signal-safe.
    unsafe { libc::_exit(2) }
}
