//! ICMP messages about packets that did not arrive. Such a message quotes the beginning of the packet, and so names the
//! connection or the UDP socket that has sent it.
//!
//! Anybody can send such a message. So a message about a segment counts only if its sequence number is one that the
//! connection has sent and the peer has not confirmed. The message ends only an attempt to connect, as on Linux (RFC
//! 5461, 4.1). A connection that exists goes on, since a route may be found again (RFC 5927, 5.2). If the connection is
//! given up later because the peer is silent, the program gets the error that the message names.

use core::net::IpAddr;

use gmp_sched::platform::Platform;
use smoltcp::wire::{Icmpv4Packet, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet};

use crate::error::NetError;
use crate::key::{Key, Protocol};
use crate::state::State;

/// The length of the header of an ICMP message. The packet that the message quotes comes after the header.
const HEADER_BYTES: usize = 8;
/// The length of the header of a frame.
const ETHERNET_BYTES: usize = 14;
/// The smallest MTU of a path that the stack believes: for IPv4 the one of Linux, for IPv6 that of RFC 8200, 5.
const SMALLEST: [u16; 2] = [552, 1280];

/// Why a packet did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// The sequence number of the segment that did not arrive.
    sequence: u32,
    reason: Reason,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// There is no route, or no receiver.
    Unreachable(NetError),
    /// The packet is longer than this MTU of the path.
    TooBig(u16),
}

/// Reads an ICMP message. The types and codes are those of RFC 792 and RFC 1122, 3.2.2.1, and the errors those of Linux.
pub(crate) fn of_ipv4(message: &[u8]) -> Option<(Key, Refusal)> {
    let (header, quoted) = message.split_at_checked(HEADER_BYTES)?;
    let reason = match (header[0], header[1]) {
        (3, 0 | 6 | 8 | 9 | 11) => Reason::Unreachable(NetError::NetworkUnreachable),
        (3, 2 | 3) => Reason::Unreachable(NetError::ConnectionRefused),
        (3, 4) => Reason::TooBig(u16::from_be_bytes([header[6], header[7]]).max(SMALLEST[0])),
        // The last of these patterns: the packet has passed too many routers.
        (3, _) | (11, 0) => Reason::Unreachable(NetError::HostUnreachable),
        _ => return None,
    };
    let packet = Ipv4Packet::new_unchecked(quoted);
    // Only the first fragment has the ports. The length of the header is in the first byte.
    if quoted.len() < 20 || packet.version() != 4 || packet.header_len() < 20 || packet.frag_offset() != 0 {
        return None;
    }
    let payload = quoted.get(packet.header_len().into()..)?;
    of_payload(packet.next_header(), [packet.src_addr().into(), packet.dst_addr().into()], payload, reason)
}

/// Reads an ICMPv6 message. The types and codes are those of RFC 4443.
pub(crate) fn of_ipv6(message: &[u8]) -> Option<(Key, Refusal)> {
    let (header, quoted) = message.split_at_checked(HEADER_BYTES)?;
    let reason = match (header[0], header[1]) {
        (1, 0) => Reason::Unreachable(NetError::NetworkUnreachable),
        (1, 4) => Reason::Unreachable(NetError::ConnectionRefused),
        (2, _) => {
            let bytes = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            Reason::TooBig(u16::try_from(bytes).unwrap_or(u16::MAX).max(SMALLEST[1]))
        }
        (1, _) | (3, 0) => Reason::Unreachable(NetError::HostUnreachable),
        _ => return None,
    };
    let packet = Ipv6Packet::new_unchecked(quoted);
    if quoted.len() < 40 || packet.version() != 6 {
        return None;
    }
    // This computer sends no other headers before those of TCP and UDP.
    of_payload(packet.next_header(), [packet.src_addr().into(), packet.dst_addr().into()], &quoted[40..], reason)
}

fn of_payload(
    protocol: IpProtocol,
    [local, peer]: [IpAddr; 2],
    payload: &[u8],
    reason: Reason,
) -> Option<(Key, Refusal)> {
    let (&[a, b, c, d, e, f, g, h], _) = payload.split_first_chunk()?;
    let protocol = match protocol {
        IpProtocol::Tcp => Protocol::Tcp,
        IpProtocol::Udp => Protocol::Udp,
        _ => return None,
    };
    let [port, peer_port] = [[a, b], [c, d]].map(u16::from_be_bytes);
    let sequence = u32::from_be_bytes([e, f, g, h]);
    Some((Key { protocol, local, peer, peer_port, port }, Refusal { sequence, reason }))
}

/// Whether the checksums of a frame with an ICMP message are right.
fn is_intact(frame: &[u8]) -> bool {
    let packet = &frame[ETHERNET_BYTES..];
    if let Ok(ip) = Ipv4Packet::new_checked(packet)
        && ip.version() == 4
    {
        return ip.verify_checksum() && Icmpv4Packet::new_checked(ip.payload()).is_ok_and(|it| it.verify_checksum());
    }
    let Ok(ip) = Ipv6Packet::new_checked(packet) else { return false };
    let (from, to) = (ip.src_addr(), ip.dst_addr());
    // After other headers, the message is not where it is looked for, and does not count.
    ip.next_header() == IpProtocol::Icmpv6
        && Icmpv6Packet::new_checked(ip.payload()).is_ok_and(|it| it.verify_checksum(&from, &to))
}

impl<Plat: Platform> State<Plat> {
    /// Passes an ICMP message, which is the frame that was received, to the connection or UDP socket with this key.
    pub(crate) fn refuse(&mut self, key: Key, Refusal { sequence, reason }: Refusal, bytes: usize) {
        if self.wire.link.may_damage() && !is_intact(&self.received[..bytes]) {
            return;
        }
        let found = match key.protocol {
            Protocol::Tcp => self.connections.find(key),
            Protocol::Udp => self.find_datagrams(Key::of_datagrams(key.local, key.port)),
        };
        let Some((index, connection)) = found.and_then(|index| Some((index, self.connections.get(index)?))) else {
            return;
        };
        if key.protocol == Protocol::Udp {
            connection.refusal = match reason {
                // As on Linux, only a socket with a peer learns of the message.
                _ if connection.peer != Some((key.peer, key.peer_port).into()) => return,
                Reason::Unreachable(NetError::ConnectionRefused) => Some(NetError::ConnectionRefused),
                Reason::TooBig(_) => Some(NetError::MessageTooLong),
                Reason::Unreachable(_) => return,
            };
            return self.connections.wake(index, [true; 2]);
        }
        // The numbers that the peer has not confirmed are among the last ones: those of the data, and that of SYN or FIN.
        let Some(next) = connection.sent.next else { return };
        let unconfirmed = connection.socket().send_queue() as u32 + 1;
        if !(1..=unconfirmed).contains(&next.0.cast_unsigned().wrapping_sub(sequence)) {
            return;
        }
        match reason {
            Reason::Unreachable(error) => {
                connection.refusal = Some(error);
                self.connections.wake(index, [false, true]);
            }
            // The segment is sent again when the retransmission timer fires.
            Reason::TooBig(bytes) => {
                let frame_bytes = bytes.saturating_add(ETHERNET_BYTES as u16);
                connection.sent.frame_bytes = connection.sent.frame_bytes.min(frame_bytes);
            }
        }
    }
}
