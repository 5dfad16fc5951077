//! Sends the contents of the ring while nothing is printed: by the port's interrupt, or by timers.

use core::sync::atomic::Ordering;

use uart_16550::spec::registers::IER;

use super::port::{self, RING};
use super::received;
use super::state::{BURST, IS_POLLED, POLL, locked, try_locked};

/// The time of the next check if no check is needed.
const NEVER: u64 = u64::MAX;

/// How the port is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// By the port's interrupt, if it can be routed to a CPU.
    ByInterrupt,
    /// By timers. Input is not received then.
    Polled,
}

/// Begins to serve the port. From then on the port's interrupt, or timers, send the contents of the ring. The interrupt
/// also receives input, and calls `inspect` when the inspection key is pressed.
pub(crate) fn serve(service: Service, inspect: fn()) {
    if service == Service::ByInterrupt && port::route_interrupt(|_| interrupt()) {
        received::enable(inspect);
        locked(|console| console.has_interrupt = true);
    } else if port::is_there() {
        log::warn!("the console has no interrupt: no input, and slow output");
        IS_POLLED.store(true, Ordering::Relaxed);
    }
}

/// The port's interrupt handler: the port has received bytes, or can take more.
fn interrupt() {
    locked(|console| {
        // Disables all reasons, as `port` explains. Releasing the lock enables the wanted ones again.
        console.port.set_interrupts(IER::empty());
        received::receive(&mut console.port.uart);
        console.send(BURST);
    });
    received::notify();
}

/// Sends a burst to a port that has no interrupt. Returns when to do so again, in ns. Called by the timer's handler.
pub(crate) fn tick(now: u64) -> u64 {
    if !IS_POLLED.load(Ordering::Relaxed) || RING.is_empty() {
        return NEVER;
    }
    // If another CPU holds the lock, it arms its timer for the next check when it releases the lock.
    let sent = try_locked(|console| console.send(BURST));
    if sent.is_none() || RING.is_empty() { NEVER } else { now + POLL }
}
