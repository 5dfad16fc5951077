//! One frame at a time, as a device of smoltcp.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::num::{NonZeroU16, NonZeroUsize};
use core::ops::RangeInclusive;
use core::time::Duration;

use gmp_sched::platform::OutOfResources;
use smoltcp::iface::{Interface, PollResult, SocketSet};
use smoltcp::phy::{Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{
    ArpOperation, ArpPacket, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6ExtHeader, Ipv6Packet,
    TcpPacket, TcpSeqNumber, UdpPacket,
};

use crate::icmp::{self, Refusal};
use crate::key::{Key, Protocol};
use crate::link::Link;
use crate::memory::room;
use crate::sequence::{self, Sent};
use crate::split::{header_bytes, split};

/// The types of all ICMPv6 messages about neighbours and routers (RFC 4861, 4); that of the question for a neighbour's
/// MAC address; and that of the answer.
const ABOUT_NEIGHBOURS: RangeInclusive<u8> = 133..=137;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Returns a time of the scheduler's clock as smoltcp counts it: rounded down, so that nothing happens too early.
pub(crate) fn micros(now: gmp_sched::time::Instant) -> Instant {
    Instant::from_micros((now.as_nanos() / 1_000) as i64)
}

/// Returns memory for a frame of at most `bytes` bytes.
///
/// # Errors
/// There is no memory.
pub(crate) fn room_for_frame(bytes: usize) -> Result<Vec<u8>, OutOfResources> {
    let mut room = room(bytes)?;
    room.resize(bytes, 0);
    Ok(room)
}

/// A link, as smoltcp uses it for one set of sockets.
pub(crate) struct Wire {
    pub(crate) link: &'static mut dyn Link,
    /// What smoltcp knows of the link. smoltcp asks for this at each attempt to send.
    capabilities: DeviceCapabilities,
    /// Memory for a frame to send, of the largest length.
    room: Vec<u8>,
    /// Whether a socket could not send because the link had no room.
    pub(crate) was_full: bool,
    /// Whether only questions for MAC addresses are sent: see [`can_answer`].
    is_trial: bool,
}

impl Wire {
    pub(crate) fn new(link: &'static mut dyn Link, room: Vec<u8>) -> Self {
        let capabilities = capabilities_of(link);
        Self { link, capabilities, room, was_full: false, is_trial: false }
    }

    /// The length of the largest frame to send.
    pub(crate) fn largest_frame(&self) -> usize {
        self.capabilities.max_transmission_unit
    }

    /// Sends a frame of no socket. `fill` gets the bytes of the frame, which are zero. The link must have room for the
    /// frame.
    pub(crate) fn send(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let frame = &mut self.room[..bytes];
        frame.fill(0);
        fill(frame);
        self.link.send(frame);
    }
}

/// A device that has received at most one frame, and sends over a link.
pub(crate) struct Packet<'a> {
    pub(crate) wire: &'a mut Wire,
    /// What is known about the segments of the connection whose socket sends.
    pub(crate) sent: &'a mut Sent,
    /// The frame, until smoltcp takes it.
    pub(crate) received: Option<&'a [u8]>,
}

/// The frame that was received.
pub(crate) struct Received<'a>(&'a [u8]);

/// Room for a frame to send.
pub(crate) struct Room<'a> {
    wire: &'a mut Wire,
    sent: &'a mut Sent,
    /// The length of the segments into which the device has to cut the frame, if it is to cut it.
    segment_bytes: Option<NonZeroU16>,
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

    /// There is room for the answer to the frame: see [`Link::receive`].
    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Room<'_>)> {
        Some((Received(self.received.take()?), Room::new(self.wire, self.sent)))
    }

    /// smoltcp takes the room for a frame before it looks for the address of the neighbour. If that address is not
    /// known, smoltcp drops the room, or sends a question for the address in it.
    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        self.wire.was_full = !self.wire.link.can_send();
        if self.wire.was_full {
            return None;
        }
        self.sent.is_unresolved = true;
        Some(Room::new(self.wire, self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.wire.capabilities.clone()
    }
}

fn capabilities_of(link: &dyn Link) -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ethernet;
    capabilities.max_transmission_unit = link.largest_to_send();
    if link.may_damage() {
        // The checksums of received frames are checked before smoltcp gets the frames, if that is needed.
        (capabilities.checksum.tcp, capabilities.checksum.udp) = (Checksum::Tx, Checksum::Tx);
    } else {
        capabilities.checksum = ChecksumCapabilities::ignored();
    }
    if let Some(largest) = link.largest_to_cut().and_then(NonZeroUsize::new) {
        capabilities.checksum.tcp = Checksum::None;
        (capabilities.segmentation.tcpv4, capabilities.segmentation.tcpv6) = (Some(largest), Some(largest));
    }
    capabilities
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl<'a> Room<'a> {
    fn new(wire: &'a mut Wire, sent: &'a mut Sent) -> Self {
        Self { wire, sent, segment_bytes: None }
    }
}

impl TxToken for Room<'_> {
    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment_bytes = meta.segmentation_offload_size;
    }

    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, fill: F) -> R {
        let (Wire { link, room, is_trial, .. }, sent) = (self.wire, self.sent);
        let frame = &mut room[..bytes];
        let result = fill(frame);
        sent.is_unresolved = asks_for_neighbour(frame);
        if *is_trial && !sent.is_unresolved {
            return result;
        }
        sequence::number(frame, sent);
        if let Some(segment_bytes) = self.segment_bytes {
            let on_path = sent.frame_bytes.saturating_sub(header_bytes(frame));
            link.send_to_cut(frame, segment_bytes.get().min(on_path));
            return result;
        }
        if bytes <= sent.frame_bytes.into() {
            link.send_from(room, bytes);
            return result;
        }
        let mut is_first = true;
        split(frame, sent.frame_bytes.into(), |part| {
            // There is room for one frame. Parts that do not fit are lost, and sent again later.
            if is_first || link.can_send() {
                link.send(part);
            }
            is_first = false;
        });
        result
    }
}

/// Whether a frame asks for the MAC address of a neighbour.
fn asks_for_neighbour(frame: &[u8]) -> bool {
    let frame = EthernetFrame::new_unchecked(frame);
    match frame.ethertype() {
        EthernetProtocol::Arp => true,
        EthernetProtocol::Ipv6 => {
            let packet = Ipv6Packet::new_unchecked(frame.payload());
            packet.next_header() == IpProtocol::Icmpv6 && packet.payload().first() == Some(&NEIGHBOUR_SOLICITATION)
        }
        _ => false,
    }
}

/// Whether a frame [about neighbours](Class::Neighbour) is the answer to a question for a MAC address.
pub(crate) fn answers_question(frame: &[u8]) -> bool {
    let frame = EthernetFrame::new_unchecked(frame);
    if frame.ethertype() == EthernetProtocol::Arp {
        return ArpPacket::new_checked(frame.payload()).is_ok_and(|it| it.operation() == ArpOperation::Reply);
    }
    let packet = Ipv6Packet::new_checked(frame.payload());
    packet.is_ok_and(|it| {
        content_of_ipv6(&it).is_some_and(|(_, content)| content.first() == Some(&NEIGHBOUR_ADVERTISEMENT))
    })
}

/// Lets the sockets of a set send what they have to send. `has_data` is whether there is probably something. Returns when
/// they need attention again, which is now only if the link is full, or if a client of DHCP begins anew.
pub(crate) fn send(
    interface: &mut Interface,
    wire: &mut Wire,
    sockets: &mut SocketSet<'static>,
    sent: &mut Sent,
    has_data: bool,
    now: gmp_sched::time::Instant,
) -> gmp_sched::time::Instant {
    let at = micros(now);
    wire.was_full = false;
    let mut packet = Packet { wire, sent, received: None };
    // Most calls without data find nothing to send, and `poll_at` costs less than an attempt to send.
    let mut due = if has_data { Some(at) } else { interface.poll_at(at, sockets) };
    while due.is_some_and(|due| due <= at) {
        let has_sent = interface.poll_egress(at, &mut packet, sockets) != PollResult::None;
        due = interface.poll_at(at, sockets);
        if !has_sent {
            break;
        }
    }
    let due = due.map_or(gmp_sched::time::Instant::NEVER, |due| {
        gmp_sched::time::Instant::from_nanos(u64::try_from(due.total_micros()).unwrap_or(0) * 1_000)
    });
    // Connections that wait for the link are served in the order in which they began to wait, so none is due before
    // now.
    due.max(now)
}

/// Whether a segment could be sent now to the peer from which `frame` has come: the link has room, and the MAC address of
/// the neighbour is known. If it is not known, the neighbour is asked for it.
///
/// `sockets` must have no socket for the segment in the frame. smoltcp then answers with a reset. The reset is not sent,
/// but shows whether smoltcp knows the MAC address.
pub(crate) fn can_answer(
    interface: &mut Interface,
    wire: &mut Wire,
    sockets: &mut SocketSet<'static>,
    frame: &[u8],
    now: gmp_sched::time::Instant,
) -> bool {
    wire.is_trial = wire.link.can_send();
    if !wire.is_trial {
        return false;
    }
    let mut sent = Sent { is_unresolved: true, ..Sent::new() };
    let mut packet = Packet { wire, sent: &mut sent, received: Some(frame) };
    interface.poll_ingress_single(micros(now), &mut packet, sockets);
    wire.is_trial = false;
    !sent.is_unresolved
}

/// Returns a time-out as smoltcp takes it.
pub(crate) fn std_duration(time: Duration) -> Option<smoltcp::time::Duration> {
    Some(smoltcp::time::Duration::from_micros(time.as_micros() as u64))
}

/// For whom a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// For a connection.
    Connection(Key, Segment),
    /// For a UDP socket with the key, or with that of the unspecified address.
    Datagram(Key),
    /// About a packet of the connection or UDP socket with the key.
    Refusal(Key, Refusal),
    /// About the addresses of neighbours, and routers.
    Neighbour,
    Other,
}

/// What the stack has to know of a segment before smoltcp gets the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// Whether the segment synchronizes sequence numbers.
    pub(crate) is_syn: bool,
    /// Whether the segment asks for a new connection.
    pub(crate) begins: bool,
    /// Whether the segment ends the data of the peer, and whether it is a reset.
    pub(crate) is_fin: bool,
    pub(crate) is_rst: bool,
    pub(crate) sequence: u32,
    /// What the segment acknowledges, and the window of the peer.
    pub(crate) acknowledged: Option<TcpSeqNumber>,
    pub(crate) window: u16,
    /// The number of bytes of data.
    pub(crate) bytes: usize,
}

impl Segment {
    /// Whether the segment has data, and neither begins nor ends anything.
    pub(crate) fn is_data(&self) -> bool {
        self.bytes != 0 && !self.is_syn && !self.is_fin && !self.is_rst
    }
}

/// Reads the addresses and ports of a frame. smoltcp checks the rest of the frame later.
pub(crate) fn classify(frame: &[u8]) -> Class {
    let Ok(frame) = EthernetFrame::new_checked(frame) else { return Class::Other };
    match frame.ethertype() {
        EthernetProtocol::Arp => Class::Neighbour,
        EthernetProtocol::Ipv4 => of_ipv4(frame.payload()).unwrap_or(Class::Other),
        EthernetProtocol::Ipv6 => of_ipv6(frame.payload()).unwrap_or(Class::Other),
        _ => Class::Other,
    }
}

fn of_ipv4(packet: &[u8]) -> Option<Class> {
    let packet = Ipv4Packet::new_checked(packet).ok()?;
    let is_whole = packet.frag_offset() == 0 && !packet.more_frags();
    let addresses = (packet.src_addr().into(), packet.dst_addr().into());
    if is_whole && packet.next_header() == IpProtocol::Icmp {
        return icmp::of_ipv4(packet.payload()).map(|(key, refusal)| Class::Refusal(key, refusal));
    }
    if is_whole { of_ports(packet.next_header(), addresses, packet.payload()) } else { None }
}

fn of_ipv6(packet: &[u8]) -> Option<Class> {
    let packet = Ipv6Packet::new_checked(packet).ok()?;
    let (protocol, payload) = content_of_ipv6(&packet)?;
    if protocol == IpProtocol::Icmpv6 {
        return match payload.first() {
            Some(kind) if ABOUT_NEIGHBOURS.contains(kind) => Some(Class::Neighbour),
            _ => icmp::of_ipv6(payload).map(|(key, refusal)| Class::Refusal(key, refusal)),
        };
    }
    of_ports(protocol, (packet.src_addr().into(), packet.dst_addr().into()), payload)
}

/// Returns the protocol of the content of a packet, and the content: what comes after the header of options, which is the
/// only further header that smoltcp skips.
pub(crate) fn content_of_ipv6<'p>(packet: &Ipv6Packet<&'p [u8]>) -> Option<(IpProtocol, &'p [u8])> {
    let (protocol, payload) = (packet.next_header(), packet.payload());
    if protocol != IpProtocol::HopByHop {
        return Some((protocol, payload));
    }
    let options = Ipv6ExtHeader::new_checked(payload).ok()?;
    Some((options.next_header(), payload.get(8 * (usize::from(options.header_len()) + 1)..)?))
}

fn of_ports(protocol: IpProtocol, (peer, local): (IpAddr, IpAddr), payload: &[u8]) -> Option<Class> {
    if protocol == IpProtocol::Udp {
        let datagram = UdpPacket::new_checked(payload).ok()?;
        return Some(Class::Datagram(Key::of_datagrams(local, datagram.dst_port())));
    }
    if protocol != IpProtocol::Tcp {
        return None;
    }
    let segment = TcpPacket::new_checked(payload).ok()?;
    let (peer_port, port) = (segment.src_port(), segment.dst_port());
    let key = Key { protocol: Protocol::Tcp, local, peer, peer_port, port };
    let is_syn = segment.syn() && !segment.rst();
    Some(Class::Connection(
        key,
        Segment {
            is_syn,
            begins: is_syn && !segment.ack(),
            is_fin: segment.fin() && !segment.rst(),
            is_rst: segment.rst(),
            sequence: segment.seq_number().0.cast_unsigned(),
            acknowledged: segment.ack().then(|| segment.ack_number()),
            window: segment.window_len(),
            bytes: segment.payload().len(),
        },
    ))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::fuzz::fill_segment;
    use crate::tests::{ADDRESS, Bench, datagram};

    #[test]
    fn device_cuts_segments_small_enough_for_the_path() {
        let mut bench = Bench::new(Some(ADDRESS), usize::MAX);
        for (frame_bytes, expected) in [(u16::MAX, 1_460), (1_514, 1_460), (14 + 1_280, 1_240)] {
            let mut sent = Sent { frame_bytes, ..Sent::new() };
            let mut frame = datagram(0, 0, &vec![0; 12 + 1_460]);
            fill_segment(&mut frame, |segment| segment.set_header_len(20));
            let wire = &mut bench.state.wire;
            let room = Room { wire, sent: &mut sent, segment_bytes: NonZeroU16::new(1_460) };
            room.consume(frame.len(), |sent| sent.copy_from_slice(&frame));
            assert_eq!(bench.other.lock().unwrap().cuts.pop(), Some(expected));
        }
    }
}
