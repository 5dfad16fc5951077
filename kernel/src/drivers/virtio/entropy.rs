//! The virtio entropy device (virtio 1.2, 5.4): the host's random numbers.
//!
//! The device has one queue. The device fills each buffer of the queue, or a part of it, with random bytes. This driver
//! uses one buffer.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gmp_sched::time::Instant;
use kernel_virtio::{Lane, negotiate, start};

use super::dma_pool::DmaPool;
use super::transport::{self, Doorbell, PciTransport};
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;
use crate::drivers::pci;

/// The number of the device's only queue.
const QUEUE: u16 = 0;

/// The entropy device. Only one caller at a time may use it.
pub(crate) struct EntropyDevice {
    lane: Lane<Doorbell>,
    registers: pci::Registers,
    /// How many bytes were requested and not taken yet.
    requested: AtomicUsize,
    /// When these bytes were requested, in nanoseconds of the clock.
    requested_at: AtomicU64,
}

/// Sets up the device. Its interrupts go to `cpu`, where they call `handler`.
///
/// # Errors
/// `SetupError::Missing` if there is no such device. Other errors if it cannot be used. If the error came after the
/// driver had begun to negotiate the features, the device has been reset.
pub(crate) fn open(cpu: CpuId, handler: fn(usize)) -> Result<EntropyDevice, SetupError> {
    let mut transport = transport::open_first(transport::ENTROPY, cpu, "virtio entropy", handler)?;
    let registers = transport.common();
    let lane = set_up(&mut transport).inspect_err(|_| transport::reset(registers))?;
    Ok(EntropyDevice { lane, registers, requested: AtomicUsize::new(0), requested_at: AtomicU64::new(0) })
}

/// Negotiates the features and sets up the queue.
fn set_up(transport: &mut PciTransport) -> Result<Lane<Doorbell>, SetupError> {
    negotiate(transport, 0, 0)?;
    let doorbell = transport.doorbell(QUEUE)?;
    let lane = Lane::receiving::<DmaPool>(transport, QUEUE, doorbell)?;
    start(transport);
    Ok(lane)
}

impl EntropyDevice {
    /// Requests `count` random bytes, or fewer if the device's buffer is smaller. Requests nothing while the answer to
    /// an earlier request has not been taken. Returns the time of the request: `now`, or the time of the earlier
    /// request.
    pub(crate) fn request(&self, count: usize, now: Instant) -> Instant {
        if self.requested.load(Ordering::Relaxed) == 0 {
            let count = count.min(self.lane.buffer().len());
            self.requested.store(count, Ordering::Relaxed);
            self.requested_at.store(now.as_nanos(), Ordering::Relaxed);
            self.lane.send(count);
        }
        Instant::from_nanos(self.requested_at.load(Ordering::Relaxed))
    }

    /// Whether the device has answered the request.
    pub(crate) fn has_answered(&self) -> bool {
        self.lane.is_idle()
    }

    /// Takes the answer to the request: copies random bytes to the beginning of `bytes`, and erases them in the buffer
    /// of the device. Returns how many bytes were copied. Returns `None` if nothing was requested, if the device has
    /// not answered yet, or if it reports that it has written no bytes or more bytes than were requested.
    pub(crate) fn take(&self, bytes: &mut [u8]) -> Option<usize> {
        if !self.has_answered() {
            return None;
        }
        // Read only once, because a broken device may change it.
        let received = self.lane.received();
        if !(1..=self.requested.load(Ordering::Relaxed)).contains(&received) {
            return None;
        }
        let count = bytes.len().min(received);
        for (to, from) in bytes.iter_mut().zip(&self.lane.buffer()[..count]) {
            *to = from.swap(0, Ordering::Relaxed);
        }
        self.requested.store(0, Ordering::Relaxed);
        Some(count)
    }

    /// Resets the device, which then answers no request any more.
    pub(crate) fn reset(&self) {
        transport::reset(self.registers);
    }
}
