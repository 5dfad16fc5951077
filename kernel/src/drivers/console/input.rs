//! Input for programs, byte by byte. The port's interrupt receives it. If the input comes from [memory](super::timed),
//! a timer receives it instead. A G that waits for input parks, so that its M can run other Gs.

use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::console::{INPUT_READY, INTERRUPTIBLE};
use boot_protocol::input::{Decoder, INTERRUPT_KEY, Input, Received};
use gmp_sched::cancel::ContextError;
use gmp_sched::device_signals::Signal;
use heapless::Deque;
use spin::Once;

use super::output;
use super::port::Uart;
use super::state::locked;
use super::stdin::InputError;
use super::timed;
use crate::mm::stack;
use crate::sched::platform::{Kernel, Limit};

/// The signal that wakes the G that waits for input. At most one G waits for this signal, because other readers wait
/// for the lock of `stdin` first.
static ARRIVED: Signal<Kernel> = Signal::new();

/// Whether input can be received and was not requested yet: see [`request`].
static IS_UNREQUESTED: AtomicBool = AtomicBool::new(false);

/// The function that prints the report when the inspection key has been pressed.
static INSPECTOR: Once<fn()> = Once::new();
/// Whether the inspection key was pressed and no report has begun since then.
static IS_INSPECTION_WANTED: AtomicBool = AtomicBool::new(false);

/// The signal that wakes the G that waits for an interrupt.
static INTERRUPT: Signal<Kernel> = Signal::new();
/// Whether the program wants to know of an interrupt.
static IS_INTERRUPTIBLE: AtomicBool = AtomicBool::new(false);
/// Whether the key for an interrupt was pressed and the signal has not been raised since then.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What was received and the program has not read yet. The console's lock guards it.
#[derive(Debug)]
pub(super) struct Unread {
    bytes: Deque<u8, 4096>,
    /// How the input has ended, if it has. What is received after the end is dropped.
    end: Option<Input>,
    /// Whether there was no room for a byte that the port may have received. Then the port does not interrupt for
    /// received bytes, and the sender waits until the program has read some bytes.
    is_paused: bool,
    /// Decodes what the port receives.
    pub(super) decoder: Decoder,
}

impl Unread {
    pub(super) const fn new() -> Self {
        Self { bytes: Deque::new(), end: None, is_paused: false, decoder: Decoder::new() }
    }

    /// Whether the port must interrupt when it receives a byte.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_paused
    }

    /// Returns the number of bytes for which there is room.
    pub(super) fn room(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    /// Adds a received byte, for which there is room, or records the end of the input. The inspection key requests a
    /// report. If the program wants to know of an interrupt, the key for an interrupt is not added, but requests the
    /// signal. Both keys have these effects also after the end.
    pub(super) fn accept(&mut self, received: Received) {
        match received {
            Received::Inspect => IS_INSPECTION_WANTED.store(true, Ordering::Relaxed),
            Received::Interrupt if IS_INTERRUPTIBLE.load(Ordering::Relaxed) => {
                IS_INTERRUPTED.store(true, Ordering::Relaxed);
            }
            Received::Interrupt => self.accept(Received::Input(Input::Byte(INTERRUPT_KEY))),
            Received::Input(_) if self.end.is_some() => {}
            // This cannot fail, because there is room.
            Received::Input(Input::Byte(byte)) => _ = self.bytes.push_back(byte),
            Received::Input(end) => self.end = Some(end),
        }
    }

    /// Moves received bytes out of the port, as long as there is room.
    pub(super) fn receive(&mut self, uart: &mut Uart) {
        self.is_paused = loop {
            if self.bytes.is_full() {
                break true;
            }
            let Ok(byte) = uart.try_receive_byte() else { break false };
            if let Some(received) = self.decoder.decode(byte) {
                self.accept(received);
            }
        };
    }

    /// Takes the next byte, if there is one. If there is none and the input has ended, returns the end.
    fn take(&mut self) -> Option<Input> {
        self.bytes.pop_front().map(Input::Byte).or(self.end)
    }
}

/// Enables input. From then on, pressing the inspection key calls `inspect`, which prints a report of what the kernel
/// is doing. The call is made on the interrupt stack.
pub(super) fn enable(inspect: fn()) {
    INSPECTOR.call_once(|| inspect);
    IS_UNREQUESTED.store(true, Ordering::Relaxed);
}

/// Makes the G that waits for input ready, if there is one, and begins the report if the inspection key was pressed.
/// The handler of the port's interrupt, or of the timer, calls this after it has released the console's lock.
pub(super) fn notify() {
    if IS_INSPECTION_WANTED.swap(false, Ordering::Relaxed)
        && let Some(inspect) = INSPECTOR.get()
    {
        inspect();
    }
    if IS_INTERRUPTED.swap(false, Ordering::Relaxed) {
        INTERRUPT.raise();
    }
    ARRIVED.raise();
}

/// Waits for an interrupt. Only one G may call this, and only once. Blocks the calling G.
pub(crate) fn wait_for_interrupt() {
    IS_INTERRUPTIBLE.store(true, Ordering::Relaxed);
    request();
    output::request(INTERRUPTIBLE);
    INTERRUPT.wait();
}

/// Asks the sender at the other end of the port for input, when the program first reads or first waits for an
/// interrupt. A program that does neither gets no input. So its run does not depend on when input arrives.
fn request() {
    if IS_UNREQUESTED.load(Ordering::Relaxed) && IS_UNREQUESTED.swap(false, Ordering::Relaxed) {
        if output::request(INPUT_READY) {
            timed::start();
        } else {
            // The console had no room for the request, and the caller cannot wait. The next call of this function tries
            // again.
            IS_UNREQUESTED.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns the next byte of the input, if one has been received. After the end of the input, each call returns the end.
/// Callable from everywhere except handlers of non-maskable interrupts.
pub fn try_read() -> Option<Input> {
    request();
    locked(|console| {
        let input = console.input.take();
        if console.input.is_paused {
            console.input.receive(&mut console.port.uart);
        }
        input
    })
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
