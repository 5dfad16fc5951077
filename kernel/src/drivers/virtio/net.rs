//! The virtio network device (virtio 1.2, 5.1): one queue for the Ethernet frames that arrive, and one for those to
//! send. The queues are [`Frames`].
//!
//! The device gets no offloads to do, and has no control queue. Both queues have the same interrupt. The device
//! interrupts for each frame that arrives, and for frames that it has sent only while a sender waits for that.

use kernel_net::{FRAME_BYTES, Link};
use kernel_virtio_block::Frames;
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport as _};

use super::hal::DmaPool;
use super::setup;
use super::transport::{self, Doorbell, MessageTransport};
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;

/// `VIRTIO_F_VERSION_1` and `VIRTIO_NET_F_MAC`, which the driver needs.
const NEEDED: u64 = 1 << 32 | 1 << 5;
/// `VIRTIO_NET_F_STATUS`, which the driver uses if the device has it.
const STATUS: u64 = 1 << 16;
/// The offsets of two fields of the configuration, and the bit of the status which says that the link is up.
const MAC: usize = 0;
const LINK_STATUS: usize = 6;
const LINK_UP: u16 = 1;
/// The numbers of the queues.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// The device is notified of this many free buffers at once, while frames keep arriving.
const BATCH: usize = 32;

/// A network device.
pub(crate) struct NetDevice {
    transport: MessageTransport,
    mac: [u8; 6],
    has_status: bool,
    receive: Queue,
    send: Queue,
}

struct Queue {
    frames: Frames<DmaPool>,
    doorbell: Doorbell,
    /// How many buffers the device has got since it was notified.
    passed: usize,
}

impl Queue {
    fn new(frames: Frames<DmaPool>, transport: &MessageTransport, number: u16) -> Result<Self, SetupError> {
        if !transport.is_routed(number) {
            return Err(SetupError::Refused);
        }
        Ok(Self { frames, doorbell: transport.doorbell(number)?, passed: 0 })
    }

    fn pass(&mut self) {
        self.passed += 1;
        if self.passed == BATCH {
            self.notify();
        }
    }

    fn notify(&mut self) {
        if core::mem::take(&mut self.passed) != 0 {
            self.doorbell.ring();
        }
    }
}

/// Sets up the first network device. Its interrupts go to `cpu`, where they call `handler`.
///
/// # Errors
/// `SetupError::Missing` if there is no such device. Other errors if it cannot be used. If the error came after the
/// driver had begun to negotiate the features, the device has been reset.
pub(crate) fn open(cpu: CpuId, handler: fn(usize)) -> Result<NetDevice, SetupError> {
    let transport = setup::find(DeviceType::Network, cpu, "virtio network", handler)?;
    let registers = transport.common();
    set_up(transport).inspect_err(|_| transport::reset(registers))
}

/// Negotiates the features and sets up the queues.
fn set_up(mut transport: MessageTransport) -> Result<NetDevice, SetupError> {
    let (status, features) = setup::negotiate(&mut transport, NEEDED, STATUS)?;
    let receive = Frames::receiving(&mut transport, RECEIVE)?;
    let send = Frames::sending(&mut transport, SEND)?;
    let mut receive = Queue::new(receive, &transport, RECEIVE)?;
    let send = Queue::new(send, &transport, SEND)?;
    let mac = transport.read_config_space(MAC).map_err(|_| SetupError::NotVirtio)?;
    transport.set_status(status | DeviceStatus::DRIVER_OK);
    receive.pass();
    receive.notify();
    Ok(NetDevice { transport, mac, has_status: features & STATUS != 0, receive, send })
}

impl Link for NetDevice {
    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn is_up(&self) -> bool {
        let status = || self.transport.read_config_space::<u16>(LINK_STATUS);
        !self.is_broken() && (!self.has_status || status().is_ok_and(|status| status & LINK_UP != 0))
    }

    fn is_broken(&self) -> bool {
        self.receive.frames.is_broken() || self.send.frames.is_broken()
    }

    fn receive(&mut self, frame: &mut [u8; FRAME_BYTES]) -> Option<usize> {
        if !self.can_send() {
            return None;
        }
        let bytes = self.receive.frames.receive(frame)?;
        self.receive.pass();
        Some(bytes)
    }

    fn can_send(&mut self) -> bool {
        if self.send.frames.can_send() {
            return true;
        }
        // The device may have sent a frame just before its interrupts were turned on.
        self.send.notify();
        self.send.frames.set_interrupts(true);
        let can_send = self.send.frames.can_send();
        if can_send {
            self.send.frames.set_interrupts(false);
        }
        can_send
    }

    fn send(&mut self, frame: &[u8]) {
        self.send.frames.set_interrupts(false);
        self.send.frames.send(frame);
        self.send.pass();
    }

    fn flush(&mut self) {
        self.receive.notify();
        self.send.notify();
    }
}
