//! The virtio network device (virtio 1.2, 5.1). The driver is [`Device`] of the crate `kernel-virtio`; this file
//! connects it with the bus, its interrupts, and the protocols. When a frame arrives, the device interrupts, and the
//! handler announces the frame to `drivers::net`. The stack then takes the frame with `receive`, from the device's
//! `Frames`.
//!
//! Both queues have the same interrupt. The device interrupts for each frame that arrives, and for frames that it has
//! sent only while a sender waits for that. If the sender has to wait too long, the driver resets the device. The
//! interrupt for changes of its configuration is another one. After it, the driver reads the status of the device, and
//! resets the device if the status says so.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};

use gmp_sched::time::Instant;
use kernel_net::Link;
use kernel_virtio::net::Device;

use super::dma_pool::DmaPool;
use super::transport::{self, Doorbell, PciTransport};
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;
use crate::sched::kthread;

/// What the driver has to do before it receives the next frame.
static EVENTS: AtomicU8 = AtomicU8::new(0);
/// The interrupt for changes has come, so the status of the device has to be read.
const CHANGED: u8 = 1;
/// A test wants the device to find an error.
const MISLED: u8 = 2;

/// A network device.
pub(crate) struct NetDevice {
    device: Device<PciTransport, Doorbell>,
    /// Whether the device knows that the last frame is right.
    is_checked: bool,
    /// How many resets of the device are in the log.
    logged_resets: u32,
    /// When the device must be checked again, because it will then have had all buffers for too long.
    /// [`Instant::NEVER`] if no sender waits for a buffer.
    due: Instant,
}

/// Remembers that the interrupt for changes has come. Its handler then makes the protocols call `receive`.
pub(crate) fn note_change() {
    EVENTS.fetch_or(CHANGED, Ordering::Release);
}

/// Makes the next call of `receive` break the protocol. Tests use this.
pub(crate) fn mislead() {
    EVENTS.fetch_or(MISLED, Ordering::Release);
}

/// Sets up the first network device. Its interrupts go to `cpu`, where they call `handler`, and `changed` if the
/// configuration has changed or the device needs a reset.
///
/// # Errors
/// `SetupError::Missing` if there is no such device. Other errors if it cannot be used. If the error came after the
/// driver had begun to negotiate the features, the device has been reset.
pub(crate) fn open(cpu: CpuId, handler: fn(usize), changed: fn(usize)) -> Result<NetDevice, SetupError> {
    let mut transport = transport::open_first(transport::NETWORK, cpu, "virtio network", handler)?;
    transport.route_changes(cpu, "virtio network (changes)", changed)?;
    let registers = transport.common();
    let device = Device::open::<DmaPool, SetupError>(transport, |transport, queue| transport.doorbell(queue));
    let device = device.inspect_err(|_| transport::reset(registers))?;
    Ok(NetDevice { device, is_checked: false, logged_resets: 0, due: Instant::NEVER })
}

impl Link for NetDevice {
    fn mac(&self) -> [u8; 6] {
        self.device.mac()
    }

    fn is_up(&self) -> bool {
        self.device.is_up()
    }

    fn is_broken(&self) -> bool {
        self.device.is_gone()
    }

    fn largest(&self) -> usize {
        self.device.largest_frame()
    }

    fn largest_to_cut(&self) -> Option<usize> {
        self.device.largest_to_cut()
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Option<usize> {
        if EVENTS.load(Ordering::Relaxed) != 0 {
            // Ordering: Acquire; partner: `note_change`. A change that comes after the swap is a new event.
            let events = EVENTS.swap(0, Ordering::Acquire);
            if events & CHANGED != 0 {
                self.device.check();
            }
            if events & MISLED != 0 {
                self.device.mislead();
            }
        }
        let received = self.device.receive(frame);
        if self.logged_resets != self.device.resets() {
            self.logged_resets = self.device.resets();
            let outcome = if self.device.is_gone() { "it is given up" } else { "it was reset" };
            log::warn!("the network device has failed: {outcome}");
        }
        let received = received?;
        self.is_checked = received.is_checked;
        Some(received.bytes)
    }

    fn has_arrived(&self) -> bool {
        self.device.has_arrived()
    }

    fn is_checked(&self) -> bool {
        self.is_checked
    }

    fn can_send(&mut self) -> bool {
        self.due = Instant::NEVER;
        if !self.device.can_send()
            && let Some(due) = self.device.check_silence(kthread::now().as_nanos())
        {
            self.due = Instant::from_nanos(due);
        }
        self.due == Instant::NEVER && !self.device.is_gone()
    }

    fn send(&mut self, frame: &[u8]) {
        self.device.send(frame);
    }

    fn send_to_cut(&mut self, frame: &[u8], segment_bytes: u16) {
        self.device.send_to_cut(frame, segment_bytes);
    }

    fn flush(&mut self) {
        self.device.flush();
    }

    fn due(&mut self) -> Instant {
        self.due
    }
}
