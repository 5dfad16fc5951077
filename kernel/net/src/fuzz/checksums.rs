//! Checksums of frames.

use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, Icmpv4Packet, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket,
    UdpPacket,
};

/// Turns a frame with a datagram into one with a segment.
pub(crate) fn fill_segment(frame: &mut [u8], fill: impl FnOnce(&mut TcpPacket<&mut [u8]>)) {
    let mut ip = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.set_next_header(IpProtocol::Tcp);
    ip.fill_checksum();
    let (from, to) = (ip.src_addr().into(), ip.dst_addr().into());
    let mut segment = TcpPacket::new_unchecked(ip.payload_mut());
    fill(&mut segment);
    segment.set_urgent_at(0);
    segment.fill_checksum(&from, &to);
}

/// Makes the checksums of a frame right.
pub(super) fn restore_checksums(frame: &mut [u8]) {
    if frame.len() >= 54 && EthernetFrame::new_unchecked(&*frame).ethertype() == EthernetProtocol::Ipv6 {
        restore_ipv6_checksums(&mut frame[14..]);
    }
    if frame.len() < 34 || EthernetFrame::new_unchecked(&*frame).ethertype() != EthernetProtocol::Ipv4 {
        return;
    }
    let mut ip = Ipv4Packet::new_unchecked(&mut frame[14..]);
    if ip.check_len().is_err() {
        return;
    }
    ip.fill_checksum();
    let (from, to, protocol) = (ip.src_addr().into(), ip.dst_addr().into(), ip.next_header());
    match protocol {
        IpProtocol::Tcp if TcpPacket::new_checked(&*ip.payload_mut()).is_ok() => {
            TcpPacket::new_unchecked(ip.payload_mut()).fill_checksum(&from, &to);
        }
        IpProtocol::Udp if UdpPacket::new_checked(&*ip.payload_mut()).is_ok() => {
            UdpPacket::new_unchecked(ip.payload_mut()).fill_checksum(&from, &to);
        }
        IpProtocol::Icmp if Icmpv4Packet::new_checked(&*ip.payload_mut()).is_ok() => {
            Icmpv4Packet::new_unchecked(ip.payload_mut()).fill_checksum();
        }
        _ => {}
    }
}

fn restore_ipv6_checksums(packet: &mut [u8]) {
    let mut ip = Ipv6Packet::new_unchecked(packet);
    if ip.check_len().is_err() {
        return;
    }
    let (from, to, protocol) = (ip.src_addr(), ip.dst_addr(), ip.next_header());
    match protocol {
        IpProtocol::Tcp if TcpPacket::new_checked(&*ip.payload_mut()).is_ok() => {
            TcpPacket::new_unchecked(ip.payload_mut()).fill_checksum(&from.into(), &to.into());
        }
        IpProtocol::Udp if UdpPacket::new_checked(&*ip.payload_mut()).is_ok() => {
            UdpPacket::new_unchecked(ip.payload_mut()).fill_checksum(&from.into(), &to.into());
        }
        IpProtocol::Icmpv6 if Icmpv6Packet::new_checked(&*ip.payload_mut()).is_ok() => {
            Icmpv6Packet::new_unchecked(ip.payload_mut()).fill_checksum(&from, &to);
        }
        _ => {}
    }
}
