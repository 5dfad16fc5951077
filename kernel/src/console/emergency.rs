//! Output past all locks, for a machine that is about to end.

use core::fmt;
use core::sync::atomic::Ordering;

use boot_protocol::console::INPUT_READY;
use uart_16550::spec::registers::LSR;

use super::{LAST_SENT, RING, RING_BYTES, Uart, config, send_from_ring, uart};

/// Looks at a port that takes nothing before it is given up. Longer than any port needs for 16 bytes.
const LOOKS: usize = 10_000_000;

/// The console of a panic. Nothing else may be printing: the other CPUs are stopped, and this one does not return.
pub(crate) struct Emergency {
    uart: Uart,
    is_there: bool,
}

impl Emergency {
    /// Sets up the port anew, sends what was printed before, and begins a new line.
    pub(crate) fn new() -> Self {
        let mut uart = uart();
        let is_there = uart.init(config()).is_ok();
        let mut console = Self { uart, is_there };
        for _ in 0..RING_BYTES {
            if RING.is_empty() {
                break;
            }
            console.wait();
            send_from_ring(&mut console.uart, console.is_there);
        }
        // The byte that invites input takes no place on the screen; it comes first of all.
        if !matches!(LAST_SENT.load(Ordering::Relaxed), b'\n' | INPUT_READY) {
            console.send(b"\n");
        }
        console
    }

    /// Waits until the port takes something. One that does not is not waited for again.
    fn wait(&mut self) {
        self.is_there = self.is_there && (0..LOOKS).any(|_| self.uart.ready_to_send().is_ok());
    }

    fn send(&mut self, mut bytes: &[u8]) {
        while self.is_there && !bytes.is_empty() {
            self.wait();
            let sent = self.uart.send_bytes(bytes);
            bytes = &bytes[sent..];
        }
    }

    /// Waits until everything has left the machine.
    pub(crate) fn flush(&mut self) {
        let _ = self.is_there && (0..LOOKS).any(|_| self.uart.lsr().contains(LSR::TRANSMITTER_EMPTY));
    }
}

impl fmt::Write for Emergency {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.send(text.as_bytes());
        Ok(())
    }
}
