//! Preemption of Gs by a signal.
//!
//! sysmon sends SIGURG, as Go does, to the thread of an M whose G has to give way. The handler does nothing but call
//! [`give_way_in_place`], which gives up the P and waits until the M has one again. So the G keeps its thread: it may
//! have been interrupted anywhere, also in the C library. What the handler calls takes no lock that code outside of
//! pinned sections can hold, and makes only system calls that are async-signal-safe.
//!
//! If the signal comes in a pinned section, or while the thread does not use the stack of the G (in another handler), the
//! request becomes *pending*: the sign of the pin word changes. The pin that is lowered last sees that, and calls
//! [`unpinned`].

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::{Native, current, spares, starting};
use crate::engine::hooks::give_way_in_place;
use crate::entities::machine::Machine;
use crate::platform::Pinned;

/// The signal. Its default action is to do nothing, and hardly any program uses it. Go: `sigPreempt`.
const SIGNAL: Signal = Signal::SIGURG;

/// Whether Gs are preempted.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The number of Gs of a scheduler that may be preempted at the same time.
static LIMIT: AtomicU32 = AtomicU32::new(PREEMPTED_LIMIT);

/// The action that the signal had before [`set_preemption`].
static PREVIOUS: OnceLock<SigAction> = OnceLock::new();

/// The maximum number of Gs of a scheduler that are preempted at the same time, unless [`set_preempted_limit`] sets
/// another number.
pub const PREEMPTED_LIMIT: u32 = 256;

/// Turns the preemption of Gs on or off, for all schedulers of this process. It is off at first.
///
/// While it is on, a G that has used its slice while others wait is preempted wherever it is, even in a loop that calls
/// nothing or in a call of the C library. It keeps its thread, and continues there when it has a P again. So each
/// preempted G takes a thread; see [`set_preempted_limit`].
///
/// sysmon preempts a G by the signal SIGURG. If the program has installed a handler for this signal before the first call
/// of this function, that handler still gets the signals that others send. In a debugger, use `handle SIGURG nostop
/// noprint`. Not preempted are a G whose thread masks the signal, a G in a section of [`forbid_waits`](super::forbid_waits),
/// and a G that has stopped the world. Such a G must not allocate or print, because a preempted G may hold a lock of the
/// C library. (This holds for all code that has a [`Pinned`] proof.) The signal interrupts system calls. Most of them
/// continue by themselves, and so do all functions of `std`. But `poll`, `select`, `epoll_wait` and `nanosleep` of the C
/// library may return `EINTR`, except in a call of [`syscall`](super::syscall) or
/// [`blocking`](super::blocking), which the signal does not interrupt.
///
/// Has no effect without the feature `refinements`. Callable from any thread; does not block. Go:
/// `GODEBUG=asyncpreemptoff=1` turns it off.
///
/// ```
/// use gmp_sched::native;
///
/// native::set_preemption(true);
/// // The only P is in use by a G that never calls the scheduler, and yet the other G runs.
/// let other_has_run = unsafe { native::enter() }.run(1, || {
///     use std::sync::atomic::{AtomicBool, Ordering};
///     static HAS_RUN: AtomicBool = AtomicBool::new(false);
///     native::go(|| HAS_RUN.store(true, Ordering::Relaxed)).detach();
///     while !HAS_RUN.load(Ordering::Relaxed) {}
///     true
/// });
/// assert!(other_has_run);
/// ```
///
/// # Panics
///
/// There is no thread that could make Ms.
#[track_caller]
pub fn set_preemption(is_on: bool) {
    if is_on {
        spares::start();
        PREVIOUS.get_or_init(install);
        // Ordering: SeqCst; partner: `starting::start`.
        IS_ON.store(true, Ordering::SeqCst);
        starting::wait();
    } else {
        IS_ON.store(false, Ordering::Relaxed);
    }
}

/// Sets how many Gs of a scheduler may be preempted at the same time, for all schedulers of this process. Each takes a
/// thread. At the limit, a G that has used its slice gives its P to the G that has been preempted for longest, so that
/// each preempted G makes progress. But then all other Gs, also those whose sleep is over, wait until one of the preempted
/// Gs ends or waits. When the world is to stop, the limit may be exceeded by the number of Ps.
///
/// Callable from any thread; does not block.
pub fn set_preempted_limit(limit: u32) {
    LIMIT.store(limit, Ordering::Relaxed);
}

/// Whether the calling thread must not wait for a lock that a preempted G may hold, such as that of the allocator. This is
/// so in a pinned section, except on an M without a P, because nothing waits for such an M. For allocators of tests.
/// Callable from anywhere.
#[doc(hidden)]
#[must_use]
pub fn must_not_allocate() -> bool {
    current::pins() != 0 && current::get().is_none_or(|machine| machine.processor().is_some())
}

/// Whether Gs are preempted.
pub(super) fn is_on() -> bool {
    IS_ON.load(Ordering::SeqCst)
}

/// Installs the handler. Returns the action that the signal had before.
fn install() -> SigAction {
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK | SaFlags::SA_RESTART;
    let action = SigAction::new(SigHandler::SigAction(handle), flags, SigSet::empty());
    // SAFETY: the handler is async-signal-safe.
    unsafe { sigaction(SIGNAL, &action) }.expect("this signal may be handled")
}

/// Sends the signal to the thread of `machine`. Async-signal-safe.
pub(super) fn request(machine: &'static Machine<Native>) {
    if !is_on() {
        return;
    }
    if let Some(thread) = machine.thread() {
        thread.is_preempted.store(true, Ordering::Relaxed);
        let process = nix::unistd::getpid().as_raw();
        // If the thread has ended, the call fails, or the signal comes to another thread, where it has no effect.
        // SAFETY: the call has no requirements.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread.number.get(), SIGNAL as libc::c_int) };
    }
}

/// The handler of the signal.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let errno = Errno::last_raw();
    let machine = current::get();
    let is_own =
        machine.and_then(Machine::thread).is_some_and(|thread| thread.is_preempted.swap(false, Ordering::Relaxed));
    match machine {
        Some(machine) if is_own => {
            // SAFETY: with SA_SIGINFO the system passes a valid pointer.
            let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
            interrupted(machine, registers[libc::REG_RSP as usize].cast_unsigned() as usize);
        }
        _ => pass_on(signal, info, context),
    }
    Errno::set_raw(errno);
}

/// Called by the handler on the thread of `machine`. `stack_pointer` is that of the interrupted code.
fn interrupted(machine: &'static Machine<Native>, stack_pointer: usize) {
    let Some(goroutine) = machine.current_goroutine() else { return };
    if current::pins() != 0 || !goroutine.stack().contains(&stack_pointer) {
        current::set_pending(true);
        return;
    }
    give_way();
}

/// Called when the last pin of the calling thread has been lowered and a request is pending.
#[cold]
#[inline(never)]
pub(super) fn unpinned() {
    current::set_pending(false);
    let errno = Errno::last_raw();
    give_way();
    Errno::set_raw(errno);
}

/// Lets the G of the calling thread, which is not pinned, give way in place.
fn give_way() {
    current::raise_pin();
    // SAFETY: the pin is raised. It is lowered below, without a look at the pending bit: the signal is masked in its
    // handler, and at the end of a pinned section another request would be for the same slice.
    let pinned = core::mem::ManuallyDrop::new(unsafe { Pinned::<Native>::adopt() });
    give_way_in_place(&pinned, LIMIT.load(Ordering::Relaxed));
    current::lower_pin_quietly();
}

/// Passes a signal that is not ours on to the handler that was installed before.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    match PREVIOUS.get().map(SigAction::handler) {
        Some(SigHandler::SigAction(previous)) => previous(signal, info, context),
        Some(SigHandler::Handler(previous)) => previous(signal),
        Some(SigHandler::SigDfl | SigHandler::SigIgn) | None => {}
    }
}
