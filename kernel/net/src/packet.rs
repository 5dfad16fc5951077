//! One frame at a time, as a device of smoltcp.

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetFrame, EthernetProtocol, Ipv4Packet, TcpPacket};

use crate::connections::Key;
use crate::link::{FRAME_BYTES, Link};

/// A device that has received at most one frame, and sends over a link.
pub(crate) struct Packet<'a> {
    pub(crate) link: &'a mut dyn Link,
    /// The frame, until smoltcp takes it.
    pub(crate) received: Option<&'a [u8]>,
    /// Memory for a frame to send.
    pub(crate) room: &'a mut [u8; FRAME_BYTES],
    /// Set when a frame asks for the MAC address of a neighbour. Its packet is sent only after the answer.
    pub(crate) has_asked: &'a mut bool,
}

/// The frame that was received.
pub(crate) struct Received<'a>(&'a [u8]);

/// Room for a frame to send.
pub(crate) struct Room<'a> {
    link: &'a mut dyn Link,
    room: &'a mut [u8; FRAME_BYTES],
    has_asked: &'a mut bool,
}

impl Device for Packet<'_> {
    type RxToken<'t>
        = Received<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Room<'t>
    where
        Self: 't;

    /// The caller has ensured that the link can send the answer to the frame.
    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Room<'_>)> {
        let frame = self.received.take()?;
        Some((Received(frame), Room { link: self.link, room: self.room, has_asked: self.has_asked }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        self.link.can_send().then_some(Room { link: self.link, room: self.room, has_asked: self.has_asked })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME_BYTES;
        capabilities
    }
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, fill: F) -> R {
        let frame = &mut self.room[..bytes];
        let result = fill(frame);
        *self.has_asked |= EthernetFrame::new_unchecked(&*frame).ethertype() == EthernetProtocol::Arp;
        self.link.send(frame);
        result
    }
}

/// For whom a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// For a connection. The second field is whether the segment begins a connection.
    Connection(Key, bool),
    /// About the addresses of neighbours.
    Neighbour,
    Other,
}

/// Reads the addresses and ports of a frame. smoltcp checks the rest of the frame later.
pub(crate) fn classify(frame: &[u8]) -> Class {
    let Ok(frame) = EthernetFrame::new_checked(frame) else { return Class::Other };
    match frame.ethertype() {
        EthernetProtocol::Arp => Class::Neighbour,
        EthernetProtocol::Ipv4 => segment(frame.payload()).unwrap_or(Class::Other),
        _ => Class::Other,
    }
}

fn segment(packet: &[u8]) -> Option<Class> {
    let packet = Ipv4Packet::new_checked(packet).ok()?;
    let is_whole = packet.frag_offset() == 0 && !packet.more_frags();
    if packet.next_header() != smoltcp::wire::IpProtocol::Tcp || !is_whole {
        return None;
    }
    let segment = TcpPacket::new_checked(packet.payload()).ok()?;
    let key = Key { peer: packet.src_addr(), peer_port: segment.src_port(), port: segment.dst_port() };
    Some(Class::Connection(key, segment.syn() && !segment.ack() && !segment.rst()))
}
