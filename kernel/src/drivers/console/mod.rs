//! The console on the first serial port: `println!`, the log, and input.
//!
//! # The life of a line
//!
//! ```text
//!   caller            ring of 128 KiB           port
//!  ┌────────┐  put   ┌──────────────────┐ send ┌──────────────┐
//!  │ format │ ─────▶ │ lines, in order  │ ───▶ │ FIFO of 16 B │ ───▶ the reader
//!  └────────┘   ▲    │                  │  ▲   └──────┬───────┘
//!   `line`      │    └──────────────────┘  │          │ interrupt: there is room (`service`)
//!               │     `state`, `ring`      └──────────┘
//!               │                             `port`
//!               └ a G waits here for room (`output`); nothing waits at the other arrows
//! ```
//!
//! - **Format**: the caller formats the line, without a lock and without waiting.
//! - **Put**: a line is put into the ring as a whole, under the console's lock, so lines never mix. If half of the ring
//!   is full, a G *parks* until there is room. Its M and its CPU run other Gs meanwhile. Waiting Gs are served in FIFO
//!   order, so each gets the same share of the port. A caller that cannot park (an interrupt handler, a driver, code
//!   with preemption or interrupts off) never waits, but may fill the other half, too. If the ring has no room for its
//!   text, the text is dropped and counted. A line with the count is put in its place (`lost`).
//! - **Send**: the caller sends as many bytes as it has put, in bursts of 128, until the port accepts no more. The
//!   interrupt of the port sends the remaining bytes, burst by burst. If the port has no interrupt, a timer sends a
//!   burst every millisecond.
//! - **Port**: the port is as fast as its reader. If nothing reads the pipe that QEMU writes to, each G continues until
//!   it prints a line for which the ring has no room.
//!
//! The console's lock is held with interrupts off, for one put and one burst at most. If a handler waits for the lock,
//! the handler gets it before other callers. If the ring is not empty when the lock is released, the port's interrupt
//! is enabled. So every byte in the ring is sent at some time.
//!
//! The program's text is standard output; the log, reports and `eprintln!` are standard error. Both streams are in the ring
//! in the order of the calls, with a mark at each change: see [`boot_protocol::console`].
//!
//! Lines end with `\n` alone; the terminal adds a carriage return. The console's functions may be called from
//! everywhere except the handler of a non-maskable interrupt, but only a G can read lines. A panic uses none of these
//! functions: it polls the port without the lock (`emergency`). [`flush`] waits, for a bounded time, until everything
//! has been sent.
//!
//! For input, the port's interrupt moves received bytes into another ring (`received`). Programs read bytes (`input`)
//! or lines (`lines`) from that ring.

mod emergency;
mod history;
mod input;
mod line;
mod lines;
mod logger;
mod lost;
mod macros;
mod output;
mod port;
mod received;
mod ring;
mod service;
pub(crate) mod state;

use core::fmt;
use core::time::Duration;

pub use boot_protocol::console::SincePowerOn;
use boot_protocol::console::Stream;

pub(crate) use self::emergency::Emergency;
pub use self::input::try_read;
pub(crate) use self::line::LineWriter;
pub use self::lines::read_line;
pub(crate) use self::logger::write_history;
pub use self::output::{flush, write};
pub(crate) use self::service::{Service, serve, tick};
pub(crate) use self::state::{Hold, hold, with_all_locked};
pub use crate::{eprint, eprintln, print, println};

/// Sets up the port and the log.
pub(crate) fn init() {
    state::locked(|console| console.port.init());
    logger::init();
}

/// Applies two kernel options: the level of the messages that are printed, and how long [`flush`] waits while the port
/// accepts no bytes.
pub(crate) fn configure(level: Option<&str>, patience: Option<Duration>) {
    logger::set_level(level);
    if let Some(patience) = patience {
        output::set_patience(patience);
    }
}

/// Prints text. Text of up to 16 KiB is not mixed with other output.
#[doc(hidden)]
pub fn print(arguments: fmt::Arguments<'_>) {
    line::with_formatted(arguments, |text| {
        write(text);
    });
}

/// Prints text to standard error. Up to 16 KiB are not mixed with other output.
#[doc(hidden)]
pub fn eprint(arguments: fmt::Arguments<'_>) {
    line::with_formatted(arguments, |text| {
        output::write_to(Stream::Error, text);
    });
}
