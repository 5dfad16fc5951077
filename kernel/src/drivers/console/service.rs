//! Sends the bytes that callers have put into the output ring and could not send at once:
//!
//! - If the serial port is in use, the handler of the port's interrupt sends them.
//! - If that interrupt cannot be routed to a CPU, or with the kernel option `console=polled`, the timer's handler sends
//!   them.
//! - If a virtio console is in use, the handler of its interrupt sends them (`state::serve`). The timer's handler
//!   checks whether the virtio console still works.

use core::sync::atomic::Ordering;

use uart_16550::spec::registers::IER;

use super::port::{self, RING};
use super::received;
use super::state::{BURST, IS_POLLED, check_interval, locked, try_locked};
use super::timed;

/// Returned by [`tick`] instead of a time if no further call is needed.
const NEVER: u64 = u64::MAX;

/// What sends the contents of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// The handler of the port's interrupt. This requires that the interrupt can be routed to a CPU.
    ByInterrupt,
    /// A timer. Used if the port's interrupt cannot be routed to a CPU, or if the kernel option `console=polled` is
    /// given. In both cases no input is received.
    Polled,
}

/// Starts the service: from then on the port's interrupt, or a timer, sends the contents of the ring. The interrupt
/// also receives input, and calls `inspect` when the inspection key is pressed.
pub(crate) fn serve(service: Service, inspect: fn()) {
    if service == Service::ByInterrupt && port::route_interrupt(|_| interrupt()) {
        timed::init();
        received::enable(inspect);
        locked(|console| console.has_interrupt = true);
    } else {
        // The store comes first, because the release of the console's lock by the message then makes the timer send
        // what is left of the boot's output. If there is no port, the timer drops the output when a virtio console has
        // failed. Otherwise Gs would wait for ever for room in the ring.
        IS_POLLED.store(true, Ordering::Relaxed);
        if port::is_there() {
            log::warn!("the console has no interrupt: no input, and slow output");
        }
    }
}

/// The port's interrupt handler. It runs when the port has received bytes, or can accept more.
fn interrupt() {
    locked(|console| {
        // Disable all causes of the interrupt, as the head of `port.rs` explains. `locked` enables the required ones
        // again before it releases the lock.
        console.port.set_interrupts(IER::empty());
        received::receive(&mut console.port);
        console.send(BURST);
    });
    received::notify();
}

/// Sends a burst to a port that has no interrupt, checks whether a virtio console still works, and receives the due
/// input of the module `timed`. Returns the time at which this function must be called again, in ns. Called by the
/// timer's handler.
pub(crate) fn tick(now: u64) -> u64 {
    send_burst(now).min(timed::tick(now))
}

fn send_burst(now: u64) -> u64 {
    let Some(interval) = check_interval().filter(|_| !RING.is_empty()) else { return NEVER };
    // If another CPU holds the lock, that CPU arms its own timer for the next check before it releases the lock.
    let sent = try_locked(|console| console.send(BURST));
    if sent.is_none() || RING.is_empty() { NEVER } else { now + interval }
}
