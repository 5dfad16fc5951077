//! Takes the console's lock again while the output ring is not empty, because each release of the lock sends a part of
//! the ring:
//!
//! - If the serial port is in use, the handler of the port's interrupt takes the lock.
//! - If that interrupt cannot be routed to a CPU, or with the kernel option `console=polled`, the timer's handler does.
//! - If a virtio console is in use, the handler of its interrupt does (`bulk`). So does the timer's handler, because
//!   the release of the lock also checks whether the virtio console still works.

use core::sync::atomic::Ordering;

use uart_16550::spec::registers::IER;

use super::input;
use super::port;
use super::ring::RING;
use super::state::{IS_POLLED, check_interval, locked, try_locked};
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
        input::enable(inspect);
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
        console.input.receive(&mut console.port.uart);
    });
    input::notify();
}

/// Sends a burst to a port that has no interrupt, checks whether a virtio console still works, and receives the due
/// input of the module `timed`. Returns the time at which this function must be called again, in ns. Called by the
/// timer's handler.
pub(crate) fn tick(now: u64) -> u64 {
    let next = match check_interval() {
        // If another CPU holds the lock, that CPU arms its own timer for the next check before it releases the lock.
        Some(interval) if !RING.is_empty() && try_locked(|_| ()).is_some() && !RING.is_empty() => now + interval,
        _ => NEVER,
    };
    next.min(timed::tick(now))
}
