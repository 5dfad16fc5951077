//! The console on the first serial port: `println!`, the log, input.
//!
//! # The life of a line
//!
//! ```text
//!   println!          ring of 128 KiB           port
//!  ┌────────┐  put   ┌──────────────────┐ send ┌──────────────┐
//!  │ format │ ─────▶ │ lines, one whole │ ───▶ │ FIFO of 16 B │ ───▶ whoever reads
//!  └────────┘   ▲    │ behind the other │  ▲   └──────┬───────┘
//!               │    └──────────────────┘  │          │ interrupt: there is room
//!               │                          └──────────┘
//!               └ a G waits here for room, and nobody waits anywhere else
//! ```
//!
//! - **Format**: on the caller's side, without a lock. Nobody waits.
//! - **Put**: as a whole, under the console's lock, so lines never mix. If the first half of the ring is full, a G *parks*
//!   until there is room; its M and its CPU run other Gs. Gs that wait do so in FIFO order, so each has the same share of
//!   the port. A caller that cannot park (an interrupt handler, a driver, anything with preemption or interrupts off)
//!   may also use the other half, and never waits: what does not fit is dropped and counted, and a line with the count
//!   takes its place.
//! - **Send**: the caller sends as much as it has put, if the port takes it, in bursts of 128 bytes.
//!   If anything is left then, the port's own interrupt sends it, burst by burst. Nobody polls. A port without an
//!   interrupt is looked at once a millisecond by the timer of a CPU.
//! - **Port**: it takes what its reader takes. If that is nothing, because QEMU's output goes to a pipe that nobody reads,
//!   the machine goes on without output, up to the next line of each G for which there is no room.
//!
//! The lock is held for one put and one burst at most, with interrupts off, and handlers get it first. When it is free and the ring is not empty, the
//! port's interrupt is enabled: so no byte stays behind.
//!
//! Lines end with `\n` alone; the terminal adds what it needs. Everything may be called from everywhere but the handler of a
//! non-maskable interrupt. A panic goes past all of it and polls the port (`Emergency`). [`flush`] waits for everything to
//! be out, for a bounded time.

mod emergency;
mod history;
mod input;
mod line;
mod lines;
mod logger;
pub(crate) mod output;
mod port;
mod ring;

use core::fmt;

pub use boot_protocol::console::SincePowerOn;

pub(crate) use self::emergency::Emergency;
pub use self::input::try_read;
pub(crate) use self::line::LineWriter;
pub use self::lines::read_line;
pub(crate) use self::logger::write_history;
pub(crate) use self::output::with_all_locked;
pub(crate) use self::output::{Hold, enable_interrupt, hold, tick};
pub use self::output::{flush, write};
use crate::program::args;
pub use crate::{print, println};

/// Prints to the console, like the macro of `std`.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::console::print(::core::format_args!($($arg)*)) };
}

/// Prints a line to the console, like the macro of `std`.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($arg:tt)*) => { $crate::console::print(::core::format_args!("{}\n", ::core::format_args!($($arg)*))) };
}

/// Sets up the port, and the log.
pub(crate) fn init() {
    output::init();
    logger::init();
}

/// Reads the kernel options.
pub(crate) fn configure() {
    logger::set_level(args::option("log"));
    output::configure();
}

/// Prints, as one piece up to 16 KiB.
#[doc(hidden)]
pub fn print(arguments: fmt::Arguments<'_>) {
    line::with_formatted(arguments, |text| {
        write(text);
    });
}
