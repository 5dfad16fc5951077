//! The console that a panic uses. Printing on this console waits for no lock: the only one that it takes is that of the
//! screen, which is free.

use core::fmt::{self, Write as _};
use core::hint;

use boot_protocol::console::{ENDING, Stream, encode};
use uart_16550::spec::registers::LSR;

use super::bulk;
use super::logger::HISTORY;
use super::lost::LOST;
use super::output;
use super::port::{Uart, config, send_from_ring, uart};
use super::ring::{RING, RING_BYTES};
use super::state::is_in_line;
use crate::arch::x86_64::timer;
use crate::drivers::screen;

/// If a port accepts no bytes, a panic polls the port at least this many times before it treats the port as missing.
/// These polls take longer than a working port needs to send the bytes in its FIFO. If the clock is set up,
/// [`output::patience`] must have passed as well.
const LEAST_POLLS: usize = 10_000_000;

/// The console of a panic. Nothing else prints while it is in use: the other CPUs have stopped, and the panic never
/// returns.
pub(crate) struct Emergency {
    uart: Uart,
    is_there: bool,
}

impl Emergency {
    /// Stops the virtio console, sets up the serial port again, sends what is still in the ring, begins a new line of
    /// standard error, and reports output that was dropped.
    pub(crate) fn new() -> Self {
        // SAFETY: the other CPUs have stopped for ever, and this CPU does not return from the panic.
        unsafe { screen::take_over() };
        let mut console = Self { uart: uart(), is_there: bulk::stop_for_panic(output::patience()) };
        // Setting up the port discards the bytes in its FIFO, so these bytes are sent first.
        console.wait_until(is_empty);
        console.is_there = console.is_there && console.uart.init(config()).is_ok();
        for _ in 0..RING_BYTES {
            if RING.is_empty() {
                break;
            }
            console.wait_until(takes_more);
            send_from_ring(&mut console.uart, console.is_there, usize::MAX);
        }
        console.send(&[Stream::Error.mark()]);
        if is_in_line() {
            console.send(b"\n");
        }
        if LOST.is_any() {
            // This cannot fail: bytes that the port does not accept are dropped.
            let _ = writeln!(console, "{LOST}");
        }
        console
    }

    /// Waits until the port is ready. After a timeout the port is treated as missing, so all later calls return at
    /// once.
    fn wait_until(&mut self, is_ready: impl Fn(&mut Uart) -> bool) {
        let start = timer::now();
        let mut polls = 0;
        while self.is_there && !is_ready(&mut self.uart) {
            polls += 1;
            let now = timer::now();
            // The time is zero until the clock is set up.
            let has_time = now != 0 && now.saturating_sub(start) < output::patience();
            self.is_there = polls < LEAST_POLLS || has_time;
            hint::spin_loop();
        }
    }

    fn send(&mut self, mut bytes: &[u8]) {
        screen::show(bytes);
        while self.is_there && !bytes.is_empty() {
            self.wait_until(takes_more);
            let sent = self.uart.send_bytes(bytes);
            bytes = &bytes[sent..];
        }
    }

    /// Announces the status with which the program is going to end.
    pub(crate) fn announce(&mut self, status: u8) {
        self.send(&[ENDING, status]);
    }

    /// Prints the latest messages of the log, including those that were not printed before.
    pub(crate) fn print_history(&mut self) {
        HISTORY.kept().for_each(|byte| encode(&[byte], |piece| self.send(piece)));
    }

    /// Waits until everything has been sent.
    pub(crate) fn flush(&mut self) {
        self.wait_until(is_empty);
    }
}

fn takes_more(uart: &mut Uart) -> bool {
    uart.ready_to_send().is_ok()
}

fn is_empty(uart: &mut Uart) -> bool {
    uart.lsr().contains(LSR::TRANSMITTER_EMPTY)
}

impl fmt::Write for Emergency {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        encode(text.as_bytes(), |piece| self.send(piece));
        Ok(())
    }
}
