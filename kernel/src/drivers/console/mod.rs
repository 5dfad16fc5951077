//! The console on the first serial port: `println!`, the log, input.
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
//! - **Format**: by the caller, without a lock and without waiting.
//! - **Put**: a line is put into the ring as a whole, under the console's lock, so lines never mix. If half of the ring is
//!   full, a G *parks* until there is room. Its M and its CPU run other Gs meanwhile. Waiting Gs are served in FIFO order,
//!   so each gets the same share of the port. A caller that cannot park (an interrupt handler, a driver, code with
//!   preemption or interrupts off) may also fill the other half, and never waits. If the ring has no room for its text, the
//!   text is dropped and counted, and a line with the count is put in its place (`lost`).
//! - **Send**: the caller sends as many bytes as it has put, in bursts of 128, as long as the port takes them. The
//!   interrupt of the port sends the remaining bytes, burst by burst. If the port has no interrupt, a timer sends them once
//!   a millisecond.
//! - **Port**: the port is as fast as its reader. If nothing reads the pipe that QEMU writes to, each G continues until it
//!   prints a line for which the ring has no room.
//!
//! The console's lock is held for one put and one burst at most, with interrupts off, and waiting handlers get it first. If
//! the ring is not empty when the lock is released, the port's interrupt is enabled, so no byte stays in the ring.
//!
//! Lines end with `\n` alone; the terminal adds a carriage return. The console's functions may be called from everywhere
//! except the handler of a non-maskable interrupt, but only a G can read lines. A panic uses none of this: it polls the
//! port without the lock (`emergency`). [`flush`] waits, for a bounded time, until everything has been sent. For input, the
//! port's interrupt moves received bytes into another ring (`received`), from which programs read bytes (`input`) or lines
//! (`lines`).

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

pub(crate) use self::emergency::Emergency;
pub use self::input::try_read;
pub(crate) use self::line::LineWriter;
pub use self::lines::read_line;
pub(crate) use self::logger::write_history;
pub use self::output::{flush, write};
pub(crate) use self::service::{Service, serve, tick};
pub(crate) use self::state::{Hold, hold, with_all_locked};
pub use crate::{print, println};

/// Sets up the port, and the log.
pub(crate) fn init() {
    state::locked(|console| console.port.init());
    logger::init();
}

/// Sets what the kernel options specify: the level of the messages that are printed, and how long [`flush`] waits for a
/// port that takes nothing.
pub(crate) fn configure(level: Option<&str>, patience: Option<Duration>) {
    logger::set_level(level);
    if let Some(patience) = patience {
        output::set_patience(patience);
    }
}

/// Prints text. Up to 16 KiB are not mixed with other output.
#[doc(hidden)]
pub fn print(arguments: fmt::Arguments<'_>) {
    line::with_formatted(arguments, |text| {
        write(text);
    });
}
