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
//! - **Put**: as a whole, under the console's lock, so lines never mix. If the first half of the ring is full, a G *parks*
//!   until there is room; its M and its CPU run other Gs. Waiting Gs are served in FIFO order, so each has the same share of
//!   the port. A caller that cannot park (an interrupt handler, a driver, anything with preemption or interrupts off)
//!   may also use the other half, and never waits: text without room is dropped and counted, and a line with the count
//!   is put in its place (`lost`).
//! - **Send**: the caller sends as many bytes as it has put, if the port takes them, in bursts of 128. The rest is sent, burst
//!   by burst, by the interrupt of the port, or by timers once a millisecond if the port has no interrupt.
//! - **Port**: it is as fast as its reader. If nothing reads the pipe that QEMU's output goes to, the Gs continue without
//!   output, each until it prints a line for which there is no room.
//!
//! The lock is held for one put and one burst at most, with interrupts off, and handlers get it first. If the ring is not
//! empty when it is released, the port's interrupt is enabled, so no byte stays in the ring.
//!
//! Lines end with `\n` alone; the terminal adds what it needs. Everything may be called from everywhere except the handler of
//! a non-maskable interrupt. A panic uses none of this: it polls the port without the lock (`emergency`). [`flush`] waits, for a
//! bounded time, until everything has been sent. The other way, the port's interrupt moves received bytes into a ring
//! (`received`), from which programs read bytes (`input`) or lines (`lines`).

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

/// Sets the level of the messages that are printed, and how long [`flush`] waits for a port that takes nothing, if the kernel
/// options say so.
pub(crate) fn configure(level: Option<&str>, patience: Option<Duration>) {
    logger::set_level(level);
    if let Some(patience) = patience {
        output::set_patience(patience);
    }
}

/// Prints; text of up to 16 KiB is not mixed with other output.
#[doc(hidden)]
pub fn print(arguments: fmt::Arguments<'_>) {
    line::with_formatted(arguments, |text| {
        write(text);
    });
}
