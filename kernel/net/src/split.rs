//! Long segments, which are sent as several ones: those for a path with a small MTU, and what a simulated device cuts.
//! smoltcp makes segments that are as long as a frame of the link may be. If a router says that they are too long, each
//! of them is sent as several ones.

use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket};

const ETHERNET_BYTES: usize = 14;
const IPV6_BYTES: usize = 40;

/// Calls `send` with a frame. If the frame has a segment and more than `most` bytes, calls `send` with its parts
/// instead, unless `most` is less than twice the length of the headers.
pub(crate) fn split(frame: &mut [u8], most: usize, mut send: impl FnMut(&[u8])) {
    match header_of_segment(frame) {
        Some((header, _)) if frame.len() > most && most >= 2 * header => cut(frame, most - header, send),
        _ => send(frame),
    }
}

/// Calls `send` with a frame, or with its parts if the frame has a segment with more than `most` bytes of data.
/// Computes the checksum of each segment.
pub(crate) fn cut(frame: &mut [u8], most: usize, mut send: impl FnMut(&[u8])) {
    let Some((header, is_ipv6)) = header_of_segment(frame) else { return send(frame) };
    let mut rest = header;
    let whole = TcpPacket::new_unchecked(&frame[ip_end(frame, is_ipv6)..header]);
    let (first, is_end, is_pushed) = (whole.seq_number(), whole.fin(), whole.psh());
    loop {
        let end = frame.len().min(rest + most);
        // The header is copied to directly in front of the data, over the end of the previous part.
        let start = rest - header;
        frame.copy_within(..header, start);
        let is_last = end == frame.len();
        let part = &mut frame[start..end];
        let ip = ip_end(part, is_ipv6);
        let ends = set_length(part, is_ipv6);
        let mut segment = TcpPacket::new_unchecked(&mut part[ip..]);
        segment.set_seq_number(first + (rest - header));
        segment.set_fin(is_end && is_last);
        segment.set_psh(is_pushed && is_last);
        segment.fill_checksum(&ends[0], &ends[1]);
        send(part);
        if is_last {
            return;
        }
        rest = end;
    }
}

/// Returns the length of all headers of a frame with a segment.
pub(crate) fn header_bytes(frame: &[u8]) -> u16 {
    header_of_segment(frame).map_or(0, |(bytes, _)| bytes as u16)
}

/// Returns the length of all headers of a frame with a segment, and whether the frame is one of IPv6.
fn header_of_segment(frame: &[u8]) -> Option<(usize, bool)> {
    let ethernet = EthernetFrame::new_unchecked(frame);
    let (is_ipv6, protocol) = match ethernet.ethertype() {
        EthernetProtocol::Ipv4 => (false, Ipv4Packet::new_unchecked(ethernet.payload()).next_header()),
        EthernetProtocol::Ipv6 => (true, Ipv6Packet::new_unchecked(ethernet.payload()).next_header()),
        _ => return None,
    };
    let ip = ip_end(frame, is_ipv6);
    let header = || ip + usize::from(TcpPacket::new_unchecked(&frame[ip..]).header_len());
    (protocol == IpProtocol::Tcp).then(header).map(|header| (header, is_ipv6))
}

/// Returns the length of the headers before the segment.
fn ip_end(frame: &[u8], is_ipv6: bool) -> usize {
    let ipv4 = || usize::from(Ipv4Packet::new_unchecked(&frame[ETHERNET_BYTES..]).header_len());
    ETHERNET_BYTES + if is_ipv6 { IPV6_BYTES } else { ipv4() }
}

/// Writes the length of a packet to its header. Returns its addresses.
fn set_length(frame: &mut [u8], is_ipv6: bool) -> [IpAddress; 2] {
    let packet = &mut frame[ETHERNET_BYTES..];
    let bytes = packet.len() as u16;
    if is_ipv6 {
        let mut ip = Ipv6Packet::new_unchecked(packet);
        ip.set_payload_len(bytes - IPV6_BYTES as u16);
        [ip.src_addr().into(), ip.dst_addr().into()]
    } else {
        let mut ip = Ipv4Packet::new_unchecked(packet);
        ip.set_total_len(bytes);
        ip.fill_checksum();
        [ip.src_addr().into(), ip.dst_addr().into()]
    }
}
