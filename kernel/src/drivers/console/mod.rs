//! The console: `println!`, the log, and input. Output uses a virtio console if there is one, and otherwise the first
//! serial port. Input uses the serial port.
//!
//! # The life of a line
//!
//! ```text
//!   caller            ring of 128 KiB            port
//!  ┌────────┐  put   ┌──────────────────┐ send ┌─────────────────┐
//!  │ format │ ─────▶ │ lines, in order  │ ───▶ │ virtio: 16 KiB  │ ───▶ the reader
//!  └────────┘   ▲    │                  │  ▲   │ serial: 16 byte │
//!   `line`      │    └──────────────────┘  │   └──────┬──────────┘
//!               │     `state`, `ring`      │          │ interrupt: there is room (`service`)
//!               │                          └──────────┘
//!               │                             `bulk`, `port`
//!               └ a G waits here for room (`output`); nothing waits at the other arrows
//! ```
//!
//! - **Format**: the caller formats the line, without a lock and without waiting.
//! - **Put**: a line is put into the ring as a whole, under the console's lock, so lines never mix. If half of the ring
//!   is full, a G *parks* until there is room. Its M and its CPU run other Gs meanwhile. Waiting Gs are served in FIFO
//!   order, so each gets the same share of the port. A caller that cannot park (an interrupt handler, a driver, code
//!   with preemption or interrupts off) never waits, but may fill the other half, too. If the ring has no room for its
//!   text, the text is dropped and counted. A line with the count is put in its place (`lost`).
//! - **Send**: each release of the console's lock sends a part of the ring (`Console::settle`). A virtio console takes
//!   chunks of up to 16 KiB (`bulk`), until the ring is empty or the device has a chunk that it has not used yet. The
//!   serial port takes a burst of 128 bytes, or fewer if it accepts no more. A caller releases the lock until as many
//!   bytes have been sent as it has put into the ring. For the rest, the interrupt handler of the device or of the port
//!   takes and releases the lock. If the port has no interrupt, a timer does so every millisecond.
//! - **Port**: the port is as fast as its reader. If nothing reads the pipe that QEMU writes to, each G continues until
//!   it prints a line for which the ring has no room.
//!
//! The console's lock is held with interrupts off. If a handler waits for the lock, the handler gets it before callers
//! that come later. If the ring is not empty when the lock is released, an interrupt of the port or of a timer will
//! come. So every byte in the ring is sent at some time. Until `service` has been started during the boot, no such
//! interrupt comes, and bytes may stay in the ring.
//!
//! The program's text is standard output; the log, reports and `eprintln!` are standard error. Both streams are in the
//! ring in the order of the calls, with a mark at each change: see [`boot_protocol::console`].
//!
//! Lines end with `\n` alone; the terminal adds a carriage return. The console's functions may be called from
//! everywhere except the handler of a non-maskable interrupt, but only a G can read lines. A panic uses none of these
//! functions: it stops the virtio console, and then polls the serial port without the lock (`emergency`). [`flush`]
//! waits, for a bounded time, until everything has been sent.
//!
//! Each byte that leaves the ring for the serial port is also shown on the screen, if there is one
//! (`drivers/screen.rs`). If there is no port, bytes leave the ring at once. Bytes that the virtio console
//! takes are not shown, because drawing so many bytes at once would keep interrupts off for too long.
//!
//! For input, the port's interrupt takes the lock, too, and keeps the received bytes. Programs read bytes (`input`) or
//! lines (`stdin`) of them. So that runs can be repeated, input may also come from memory, at instants of the machine's
//! clock that the memory specifies (`timed`).

mod bulk;
mod emergency;
mod history;
mod input;
mod line;
mod logger;
mod lost;
mod macros;
mod output;
mod port;
mod ring;
mod service;
pub(crate) mod state;
mod stdin;
pub(crate) mod timed;

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

pub use boot_protocol::console::SincePowerOn;
use boot_protocol::console::{BEGIN, Stream};
pub use boot_protocol::input::Input;

pub(crate) use self::bulk::{is_in_use as uses_virtio, mute, start as start_virtio};
pub(crate) use self::emergency::Emergency;
pub use self::input::try_read;
pub(crate) use self::input::wait_for_interrupt;
pub(crate) use self::line::LineWriter;
pub(crate) use self::output::has_room_for_unwaited;
pub use self::output::{flush, write};
use self::ring::RING;
pub(crate) use self::service::{Service, serve, tick};
pub(crate) use self::state::{Hold, hold, with_all_locked};
pub use self::stdin::{InputError, Lines, Stdin, stdin};
pub use crate::{eprint, eprintln, print, println};

/// Whether the kernel option `stderr` says that standard error is a terminal.
static STDERR_IS_TERMINAL: AtomicBool = AtomicBool::new(false);

/// Sets up the port and the log.
pub(crate) fn init() {
    state::locked(|console| {
        console.port.init();
        RING.put(&[BEGIN]);
    });
    logger::init();
}

/// Applies three kernel options: the level of the messages that are printed, how long [`flush`] and a panic wait while
/// the port accepts no bytes, and whether standard error is a terminal.
pub(crate) fn configure(level: Option<&str>, patience: Option<Duration>, stderr_is_terminal: bool) {
    logger::set_level(level);
    STDERR_IS_TERMINAL.store(stderr_is_terminal, Ordering::Relaxed);
    if let Some(patience) = patience {
        output::set_patience(patience);
    }
}

/// Whether standard error is a terminal, on which a program can show its progress. The kernel option `stderr`, which
/// the command `boot` sets, decides this. Callable from everywhere.
#[must_use]
pub fn stderr_is_terminal() -> bool {
    STDERR_IS_TERMINAL.load(Ordering::Relaxed)
}

/// Prints text. Text of up to 16 KiB is not mixed with other output, except if the caller cannot allocate the memory to
/// format it as a whole.
#[doc(hidden)]
pub fn print(arguments: fmt::Arguments<'_>) {
    line::with_formatted(arguments, |text| {
        write(text);
    });
}

/// Prints text to standard error. Text of up to 16 KiB is not mixed with other output, except if the caller cannot
/// allocate the memory to format it as a whole.
#[doc(hidden)]
pub fn eprint(arguments: fmt::Arguments<'_>) {
    line::with_formatted(arguments, |text| {
        output::write_to(Stream::Error, text);
    });
}
