//! Whether a frame has arrived as it was sent. smoltcp could check this, too, but for all frames of a link or for none,
//! and some devices have checked some of the frames already.

use core::net::IpAddr;

use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket};

use crate::packet::content_of_ipv6;

/// Whether the checksum of the segment or datagram in a frame is right. Returns `false` for a part of an IPv4 packet,
/// because the stack does not put parts together, and `true` for other frames, which smoltcp checks, or does not
/// accept.
pub(crate) fn is_intact(frame: &[u8]) -> bool {
    let Ok(frame) = EthernetFrame::new_checked(frame) else { return true };
    let is_intact = match frame.ethertype() {
        EthernetProtocol::Ipv4 => of_ipv4(frame.payload()),
        EthernetProtocol::Ipv6 => of_ipv6(frame.payload()),
        _ => None,
    };
    is_intact.unwrap_or(true)
}

fn of_ipv4(packet: &[u8]) -> Option<bool> {
    let packet = Ipv4Packet::new_checked(packet).ok()?;
    if packet.frag_offset() != 0 || packet.more_frags() {
        // smoltcp would take a part of a packet for a whole one.
        return Some(false);
    }
    of_content(packet.next_header(), (packet.src_addr().into(), packet.dst_addr().into()), packet.payload())
}

fn of_ipv6(packet: &[u8]) -> Option<bool> {
    let packet = Ipv6Packet::new_checked(packet).ok()?;
    let (protocol, payload) = content_of_ipv6(&packet)?;
    of_content(protocol, (packet.src_addr().into(), packet.dst_addr().into()), payload)
}

fn of_content(protocol: IpProtocol, (from, to): (IpAddr, IpAddr), content: &[u8]) -> Option<bool> {
    match protocol {
        IpProtocol::Tcp => Some(TcpPacket::new_checked(content).ok()?.verify_checksum(&from.into(), &to.into())),
        IpProtocol::Udp => Some(UdpPacket::new_checked(content).ok()?.verify_checksum(&from.into(), &to.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::net::{Ipv4Addr, Ipv6Addr};
    use std::vec;
    use std::vec::Vec;

    use super::*;

    const FROM: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 0, 2, 2), Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 2));
    const TO: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 0, 2, 15), Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 15));

    /// Returns a frame with a segment or datagram of this many bytes.
    fn frame(is_ipv6: bool, protocol: IpProtocol, bytes: usize) -> Vec<u8> {
        let header = if is_ipv6 { 40 } else { 20 };
        let mut frame = vec![0; 14 + header + bytes];
        let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
        ethernet.set_ethertype(if is_ipv6 { EthernetProtocol::Ipv6 } else { EthernetProtocol::Ipv4 });
        let (packet, content) = ethernet.payload_mut().split_at_mut(header);
        content.iter_mut().zip(0..).for_each(|(byte, number)| *byte = number as u8);
        let ends: [IpAddr; 2] = if is_ipv6 {
            let mut ip = Ipv6Packet::new_unchecked(packet);
            ip.set_version(6);
            ip.set_payload_len(bytes as u16);
            ip.set_next_header(protocol);
            ip.set_src_addr(FROM.1);
            ip.set_dst_addr(TO.1);
            [FROM.1.into(), TO.1.into()]
        } else {
            let mut ip = Ipv4Packet::new_unchecked(packet);
            ip.set_version(4);
            ip.set_header_len(20);
            ip.set_total_len((header + bytes) as u16);
            ip.set_next_header(protocol);
            ip.set_src_addr(FROM.0);
            ip.set_dst_addr(TO.0);
            [FROM.0.into(), TO.0.into()]
        };
        let [from, to] = ends.map(Into::into);
        if protocol == IpProtocol::Tcp {
            let mut segment = TcpPacket::new_unchecked(content);
            segment.set_header_len(20);
            segment.fill_checksum(&from, &to);
        } else {
            let mut datagram = UdpPacket::new_unchecked(content);
            datagram.set_len(bytes as u16);
            datagram.fill_checksum(&from, &to);
        }
        frame
    }

    #[test]
    fn each_changed_byte_of_a_segment_or_datagram_is_noticed() {
        for (is_ipv6, protocol) in
            [false, true].into_iter().flat_map(|is| [(is, IpProtocol::Tcp), (is, IpProtocol::Udp)])
        {
            let mut frame = frame(is_ipv6, protocol, 100);
            assert!(is_intact(&frame));
            let content = if is_ipv6 { 54 } else { 34 };
            let of_length = if protocol == IpProtocol::Tcp { content + 12 } else { content + 4 };
            // A header whose length is not possible is not one that smoltcp accepts.
            for at in (content..frame.len()).filter(|at| !(of_length..of_length + 2).contains(at)) {
                frame[at] ^= 0x10;
                assert!(!is_intact(&frame), "{protocol} at {at}");
                frame[at] ^= 0x10;
            }
        }
        assert!(is_intact(&frame(false, IpProtocol::Tcp, 65_000)), "as long as devices put segments together");
    }

    #[test]
    fn parts_of_packets_are_refused_and_what_smoltcp_checks_is_not() {
        let mut part = frame(false, IpProtocol::Tcp, 100);
        let mut ip = Ipv4Packet::new_unchecked(&mut part[14..]);
        ip.set_more_frags(true);
        assert!(!is_intact(&part));
        let mut ip = Ipv4Packet::new_unchecked(&mut part[14..]);
        ip.set_more_frags(false);
        ip.set_frag_offset(8);
        assert!(!is_intact(&part));
        let mut icmp = frame(false, IpProtocol::Tcp, 100);
        Ipv4Packet::new_unchecked(&mut icmp[14..]).set_next_header(IpProtocol::Icmp);
        let cut = &frame(false, IpProtocol::Tcp, 100)[..40];
        for other in [&icmp[..], cut, &[0; 60], &[]] {
            assert!(is_intact(other));
        }
    }
}
