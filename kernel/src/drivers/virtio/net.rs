//! The virtio network device (virtio 1.2, 5.1): one queue for the Ethernet frames that arrive, and one for those to
//! send. The queues are [`Frames`].
//!
//! The device gets no offloads to do, and has no control queue. Both queues have the same interrupt. The device
//! interrupts for each frame that arrives, and for frames that it has sent only while a sender waits for that. It also
//! interrupts when its configuration changes, or when it needs a reset. So if an interrupt has brought no frame, the
//! driver reads the status of the device. A device that needs a reset is broken.

use kernel_net::{FRAME_BYTES, Link};
use kernel_virtio::net::Frames;
use kernel_virtio::{Transport as _, needs_reset, negotiate, start};

use super::dma_pool::DmaPool;
use super::transport::{self, Doorbell, PciTransport};
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::SetupError;

/// `VIRTIO_NET_F_MAC`, which the driver needs.
const HAS_MAC: u64 = 1 << 5;
/// `VIRTIO_NET_F_STATUS`, which the driver uses if the device has it.
const STATUS: u64 = 1 << 16;
/// The offsets of two words of the configuration: the first four bytes of the device's address, and the other two with
/// the status after them. The bit of this word which says that the link is up.
const MAC: usize = 0;
const MAC_AND_STATUS: usize = 4;
const LINK_UP: u32 = 1 << 16;
/// The numbers of the queues.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;

/// A network device.
pub(crate) struct NetDevice {
    transport: PciTransport,
    mac: [u8; 6],
    has_status: bool,
    needs_reset: bool,
    /// Whether a frame has arrived since the last call of `receive` that has found none.
    has_received: bool,
    receive: Frames<Doorbell>,
    send: Frames<Doorbell>,
}

/// Sets up the first network device. Its interrupts go to `cpu`, where they call `handler`.
///
/// # Errors
/// `SetupError::Missing` if there is no such device. Other errors if it cannot be used. If the error came after the
/// driver had begun to negotiate the features, the device has been reset.
pub(crate) fn open(cpu: CpuId, handler: fn(usize)) -> Result<NetDevice, SetupError> {
    let transport = transport::open_first(transport::NETWORK, cpu, "virtio network", handler)?;
    let registers = transport.common();
    set_up(transport).inspect_err(|_| transport::reset(registers))
}

/// Negotiates the features and sets up the queues.
fn set_up(mut transport: PciTransport) -> Result<NetDevice, SetupError> {
    let features = negotiate(&mut transport, HAS_MAC, STATUS)?;
    transport.announce_changes()?;
    let [receive, send] = [RECEIVE, SEND].map(|queue| transport.doorbell(queue));
    let mut receive = Frames::receiving::<DmaPool>(&mut transport, RECEIVE, receive?)?;
    let send = Frames::sending::<DmaPool>(&mut transport, SEND, send?)?;
    let words = [MAC, MAC_AND_STATUS].map(|offset| transport.configuration(offset).map(u32::to_le_bytes));
    let [Some([a, b, c, d]), Some([e, f, ..])] = words else { return Err(SetupError::NotVirtio) };
    start(&mut transport);
    receive.flush();
    let (mac, has_status) = ([a, b, c, d, e, f], features & STATUS != 0);
    Ok(NetDevice { transport, mac, has_status, needs_reset: false, has_received: false, receive, send })
}

impl Link for NetDevice {
    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn is_up(&self) -> bool {
        let status = || self.transport.configuration(MAC_AND_STATUS);
        !self.is_broken() && (!self.has_status || status().is_some_and(|status| status & LINK_UP != 0))
    }

    fn is_broken(&self) -> bool {
        self.needs_reset || self.receive.is_broken() || self.send.is_broken()
    }

    fn receive(&mut self, frame: &mut [u8; FRAME_BYTES]) -> Option<usize> {
        let bytes = if self.can_send() { self.receive.receive(frame) } else { None };
        if bytes.is_none() && !self.has_received {
            self.needs_reset |= needs_reset(&self.transport);
        }
        self.has_received = bytes.is_some();
        bytes
    }

    fn can_send(&mut self) -> bool {
        if self.send.can_send() {
            return true;
        }
        // The device may have sent a frame just before its interrupts were turned on.
        self.send.flush();
        self.send.set_interrupts(true);
        let can_send = self.send.can_send();
        if can_send {
            self.send.set_interrupts(false);
        }
        can_send
    }

    fn send(&mut self, frame: &[u8]) {
        self.send.set_interrupts(false);
        self.send.send(frame);
    }

    fn flush(&mut self) {
        self.receive.flush();
        self.send.flush();
    }
}
