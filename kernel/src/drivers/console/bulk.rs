//! The fast way to send the contents of the console's output ring: a port of a virtio console (below: the device). The
//! device takes a chunk of up to 16 KiB at once. The serial port takes one byte at a time, and each byte costs a VM
//! exit.
//!
//! Both ports write to the same reader, in the order in which the kernel uses them. So the output stays in order if the
//! kernel uses one port only when the other one is empty:
//!
//! - *Start*: the serial port is used until the device has been set up. Then the kernel waits until the serial port is
//!   empty, and uses the device.
//! - *A chunk* stays in the ring until the device has used it. At most one chunk is in flight.
//! - *The device does not answer*, or reports that the host has closed the port: the device is reset, and the serial
//!   port sends the ring again. This includes the chunk in flight, because it is not known how much of this chunk the
//!   device has sent. What the device has sent is duplicated, but nothing that is still in the ring is lost.
//! - *A panic* waits until the chunk in flight has been used, and then uses the serial port.
//!
//! If the reader is slow, a device that works may also take a long time to use its chunk. The kernel must not reset
//! such a device, because it may have sent a part of the chunk. So if a chunk has been in flight for a second, the
//! kernel probes the device: it sends a control message, which a working device uses at once. If the device has not
//! used the message after five seconds, the kernel resets the device.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use spin::Once;

use super::ring::RING;
use super::state::locked;
use crate::arch::x86_64::timer;
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;
use crate::drivers::virtio::console::{self, OpenError, OutputPort};

/// The largest number of bytes in a chunk.
pub(super) const CHUNK: usize = 16 * 1024;
/// How long a chunk is in flight before the device is probed, in ns.
const PROBE_AFTER: u64 = 1_000_000_000;
/// How long the device may take to answer a probe, in ns.
const ANSWER_WITHIN: u64 = 5_000_000_000;
/// How long the start waits until the serial port is empty, in ns.
const EMPTY_WITHIN: u64 = 1_000_000_000;

static PORT: Once<OutputPort> = Once::new();
/// Whether output goes to the device. Changed under the console's lock, or by a panic.
static IS_IN_USE: AtomicBool = AtomicBool::new(false);
/// Element `n % 2` is the position in the ring after chunk number `n`. The positions of two chunks are kept, because a
/// panic may stop the kernel after the position of the next chunk was stored, but before that chunk was sent. In this
/// case the position after the previous chunk is the valid one.
static ENDS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Whether output goes to the device.
pub(crate) fn is_in_use() -> bool {
    IS_IN_USE.load(Ordering::Relaxed)
}

/// Returns the port of the device if output goes to the device, and `None` otherwise.
fn port() -> Option<&'static OutputPort> {
    PORT.get().filter(|_| is_in_use())
}

/// Sets up the device, if there is one, and makes all further output go to it. If the setup fails, or if the serial
/// port does not become empty within [`EMPTY_WITHIN`], the serial port stays in use. Called once, after the clock was
/// set up.
pub(crate) fn start() {
    match console::open(CpuId::BOOT, |_| locked(|_| ())) {
        Ok(port) => {
            PORT.call_once(|| port);
            locked(|console| {
                let start = timer::now();
                while !console.port.is_empty() {
                    if timer::now().saturating_sub(start) > EMPTY_WITHIN {
                        // Nothing reads the output of the serial port, so this port does not become empty. The serial
                        // port stays in use.
                        return;
                    }
                    spin_loop();
                }
                ENDS.iter().for_each(|end| end.store(RING.taken(), Ordering::Relaxed));
                IS_IN_USE.store(true, Ordering::Relaxed);
            });
        }
        Err(OpenError::Setup(SetupError::Missing)) => {}
        Err(error) => log::warn!("virtio console: {error}; all output uses the serial port"),
    }
}

/// The part of this module's state that the console's lock guards.
#[derive(Debug)]
pub(super) struct Bulk {
    /// When the chunk in flight was sent. If the device has answered a probe since then, the time at which the kernel
    /// noticed the last answer.
    since: u64,
    /// When the last probe was sent, if the device has not answered this probe yet. `None` if the device has answered
    /// every probe.
    probed: Option<u64>,
}

impl Bulk {
    pub(super) const fn new() -> Self {
        Self { since: 0, probed: None }
    }

    /// Sends chunks until the ring is empty or a chunk remains in flight.
    fn send(&mut self, port: &OutputPort) {
        while take_out_used(port) && !RING.is_empty() {
            send_chunk(port);
            if !port.output().is_idle() {
                (self.since, self.probed) = (timer::now(), None);
            }
        }
    }

    /// Sends the rest of the ring, if output goes to the device. Called before the console's lock is released. If a
    /// chunk remains in flight, makes the device interrupt when it has used the chunk. Returns `true` if the device
    /// does not answer or drops its output. Then the device has been reset, and output goes to the serial port.
    pub(super) fn has_failed_to_send(&mut self) -> bool {
        let Some(port) = port() else { return false };
        let output = port.output();
        self.send(port);
        if !output.is_idle() {
            output.set_interrupts(true);
            // Check once more, because the device may have used the chunk before the device's interrupts were turned
            // on.
            self.send(port);
        }
        if output.is_idle() {
            output.set_interrupts(false);
            return false;
        }
        let has_failed = port.has_closed() || self.is_mute(port);
        if has_failed {
            stop(port);
        }
        has_failed
    }

    /// Whether the device, which has a chunk in flight, has not answered a probe within [`ANSWER_WITHIN`]. Sends a
    /// probe if the chunk has been in flight for more than [`PROBE_AFTER`].
    fn is_mute(&mut self, port: &OutputPort) -> bool {
        let now = timer::now();
        match self.probed {
            Some(_) if port.has_answered() => (self.since, self.probed) = (now, None),
            Some(probed) => return now.saturating_sub(probed) > ANSWER_WITHIN,
            None if now.saturating_sub(self.since) > PROBE_AFTER => {
                port.probe();
                self.probed = Some(now);
            }
            None => {}
        }
        false
    }
}

/// Takes the last chunk out of the ring, if the device has used it. Returns whether no chunk is in flight.
fn take_out_used(port: &OutputPort) -> bool {
    let output = port.output();
    let is_idle = output.is_idle();
    if is_idle {
        RING.take_to(ENDS[usize::from(output.sent() % 2)].load(Ordering::Relaxed));
    }
    is_idle
}

/// Sends the next chunk of the ring, which is not empty. Called only if no chunk is in flight.
fn send_chunk(port: &OutputPort) {
    let output = port.output();
    let chunk = &output.buffer()[..CHUNK];
    let length = RING.copy_to(chunk.iter(), |to, byte| to.store(byte, Ordering::Relaxed));
    let number = output.sent().wrapping_add(1);
    ENDS[usize::from(number % 2)].store(RING.taken().wrapping_add(length), Ordering::Relaxed);
    output.send(length);
    take_out_used(port);
}

/// Resets the device. All further output goes to the serial port.
fn stop(port: &OutputPort) {
    port.reset();
    IS_IN_USE.store(false, Ordering::Relaxed);
}

/// Waits until the chunk in flight has been used, or until it is clear that the device does not answer, but no longer
/// than `patience`, in ns. Then resets the device, so that the serial port can be used. Called by a panic, which has
/// stopped all other CPUs. Returns `false` if `patience` has ended the wait. In this case nothing reads the output.
pub(super) fn stop_for_panic(patience: u64) -> bool {
    let Some(port) = port() else { return true };
    // Another CPU may have been stopped after it had filled a chunk or a control message, but before it notified the
    // device. So notify the device again.
    port.resume();
    port.probe();
    let start = timer::now();
    let is_read = loop {
        let waited = timer::now().saturating_sub(start);
        if take_out_used(port) || waited > ANSWER_WITHIN && !port.has_answered() {
            break true;
        }
        if waited > patience {
            break false;
        }
        spin_loop();
    };
    stop(port);
    is_read
}

/// From now on the device is not notified, so it does not answer. Tests use this.
pub(crate) fn mute() {
    PORT.get().into_iter().for_each(OutputPort::mute);
}
