//! How the port is served while nothing is printed: by its interrupt, or by timers.

use core::sync::atomic::Ordering;

use uart_16550::spec::registers::IER;

use super::port::{self, RING};
use super::received;
use super::state::{BURST, IS_POLLED, POLL, locked, try_locked};

/// Never.
const NEVER: u64 = u64::MAX;

/// How the port is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// By its interrupt, if that can be routed to a CPU.
    ByInterrupt,
    /// By timers: there is no input.
    Polled,
}

/// Begins to serve the port: what is in the ring is sent without its caller, and with an interrupt input can be received.
/// `inspect` is called by that interrupt when the key for a report is pressed.
pub(crate) fn serve(service: Service, inspect: fn()) {
    if service == Service::ByInterrupt && port::route_interrupt(|_| interrupt()) {
        received::enable(inspect);
        locked(|console| console.has_interrupt = true);
    } else if port::is_there() {
        log::warn!("the console has no interrupt: no input, and slow output");
        IS_POLLED.store(true, Ordering::Relaxed);
    }
}

/// The port has received bytes, or can take more.
fn interrupt() {
    locked(|console| {
        // See `port`. The wanted reasons are enabled when the lock is released.
        console.port.set_interrupts(IER::empty());
        received::receive(&mut console.port.uart);
        console.send(BURST);
    });
    received::notify();
}

/// Checks a port that has no interrupt. Returns when to check again, in ns. Called by the timer's handler.
pub(crate) fn tick(now: u64) -> u64 {
    if !IS_POLLED.load(Ordering::Relaxed) || RING.is_empty() {
        return NEVER;
    }
    // If the lock is held, its holder makes a timer check again.
    let sent = try_locked(|console| console.send(BURST));
    if sent.is_none() || RING.is_empty() { NEVER } else { now + POLL }
}
