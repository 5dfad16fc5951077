//! Input for programs, byte by byte. A G that waits for input parks, so that its M can run other Gs. The port's
//! interrupt makes the G ready, or a timer if the input comes from memory.

use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::input::Input;
use gmp_sched::cancel::ContextError;
use gmp_sched::device_signals::Signal;

use super::output;
use super::received;
use super::state::with_port;
use super::stdin::InputError;
use super::timed;
use crate::mm::stack;
use crate::sched::platform::{Kernel, Limit};

/// The signal that wakes the G that waits for input. At most one G waits for this signal, because other readers wait
/// for the lock of `stdin` first.
static ARRIVED: Signal<Kernel> = Signal::new();

/// Whether the kernel has asked the sender at the other end of the port for input.
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Asks the sender for input, when the program reads for the first time. A program that never reads gets no input. So
/// its run does not depend on when input arrives.
fn request() {
    if received::is_enabled() && !IS_REQUESTED.load(Ordering::Relaxed) && !IS_REQUESTED.swap(true, Ordering::Relaxed) {
        if output::request_input() {
            timed::start();
        } else {
            // The console had no room for the request, and the caller cannot wait. The next call of this function tries
            // again.
            IS_REQUESTED.store(false, Ordering::Relaxed);
        }
    }
}

/// Returns the next byte of the input, if one has been received. After the end of the input, each call returns the end.
/// Callable from everywhere except handlers of non-maskable interrupts.
pub fn try_read() -> Option<Input> {
    request();
    loop {
        let input = received::take();
        let is_paused = received::is_paused();
        if is_paused {
            with_port(received::receive);
        }
        // If the input was paused, `receive` may just have put bytes into the ring, and no interrupt reports these
        // bytes. So the ring is checked again before `None` is returned.
        if input.is_some() || !is_paused {
            return input;
        }
    }
}

/// Touches the stack pages that a G may need while it holds the lock of `stdin`. If there is no frame for one of them,
/// the G panics here, and not while it holds the lock.
pub(super) fn touch_stack_ahead() {
    /// A G may also print while it holds the lock, and then needs more pages than for printing alone.
    const PAGES: usize = 4;
    stack::touch_pages_ahead(PAGES);
}

/// Waits for the next byte or the end of the input, and returns it. Only one G at a time may call this. Blocks the
/// calling G, but not its M.
///
/// # Errors
/// If the limit ends the wait. On the host, the function of the same name in `host/console/input.rs` takes the place of
/// this function, and may return other errors, too.
#[track_caller]
pub(super) fn wait_for_input(limit: &Limit<'_>) -> Result<Input, InputError> {
    received::set_waker(wake_reader);
    loop {
        if let Some(input) = try_read() {
            return Ok(input);
        }
        // If input has come since `try_read` was called, the signal has been raised, so the wait ends at once.
        if !ARRIVED.wait_until(*limit) {
            return Err(limit.err().unwrap_or(ContextError::DeadlineExceeded).into());
        }
    }
}

/// Makes the G that waits for input ready, if there is one. Called by the port's interrupt handler, or by a timer if
/// the input comes from memory (`timed`).
fn wake_reader() {
    ARRIVED.raise();
}
