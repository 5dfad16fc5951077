//! What a connection keeps of the segments that it sends, and the sequence number of segments without data.
//!
//! When its retransmission timer fires, smoltcp begins anew at the first byte that the peer has not acknowledged. Until it
//! has sent all bytes again, its segments without data, such as acknowledgements, have the sequence number of the byte
//! that it sends next. If the peer has already got that byte, it only answers such a segment, and otherwise ignores it
//! as an old one (RFC 9293, 3.10.7.4). So the peer does not learn what the segment acknowledges. If both sides send,
//! both can wait in this way for ever, although every segment arrives. So a segment without data gets the first number
//! that was never used.
//!
//! A peer whose window is closed takes such a segment only with the number that it expects next. smoltcp may have used
//! later ones, for the byte that probes the window, or for bytes that the peer had no room for. So a segment without data
//! then gets the last number that the peer has acknowledged.
//!
//! A peer may close its window although it has not acknowledged all that was sent: one of its segments has overtaken
//! another one, or it has no memory for what arrives. smoltcp would probe the window with the byte after those that it has
//! sent, and would never send these again. So smoltcp is shown the smallest window that is open. Then it sends them
//! again when its retransmission timer fires, as often as it would probe the window.

use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, TcpSeqNumber,
};

use crate::packet::Segment;

/// What a connection keeps of the segments that it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// The sequence number of the connection's first byte.
    pub(crate) first: TcpSeqNumber,
    /// The first sequence number that the connection has never used.
    pub(crate) next: Option<TcpSeqNumber>,
    /// The last number that the peer has acknowledged, and the window that it has named with that.
    pub(crate) acknowledged: TcpSeqNumber,
    pub(crate) window: u16,
    /// How often the peer has said the same again, although more was sent.
    pub(crate) repeats: u8,
    /// Whether smoltcp has been shown that the window is closed.
    pub(crate) is_shown: bool,
    /// The first sequence number of the peer that the connection has not acknowledged.
    pub(crate) expected: TcpSeqNumber,
    /// The length of the largest frame that reaches the peer, if a router has named it.
    pub(crate) frame_bytes: u16,
    /// Whether the last segment could not be sent because the MAC address of the neighbour is not known.
    pub(crate) is_unresolved: bool,
}

impl Sent {
    pub(crate) const fn new() -> Self {
        let [first, acknowledged, expected] = [TcpSeqNumber(0); 3];
        let (window, frame_bytes, is_shown, is_unresolved) = (u16::MAX, u16::MAX, false, false);
        let repeats = 0;
        Self { first, next: None, acknowledged, window, repeats, is_shown, expected, frame_bytes, is_unresolved }
    }

    /// Returns how many sequence numbers the connection has used, with that of the end of the data, but without that of
    /// the beginning. They may overflow.
    pub(crate) fn count(&self) -> u32 {
        self.next.map_or(0, |next| next.0.wrapping_sub(self.first.0).cast_unsigned())
    }

    /// Whether a segment only repeats what the peer has acknowledged, although more was sent, and is at least the third one
    /// that does. smoltcp, which does not count all of them, may take it for the third one.
    pub(crate) fn is_third_repetition(&mut self, segment: Segment) -> bool {
        let is_empty = segment.bytes == 0 && !segment.is_syn && !segment.is_rst;
        let is_equal = (segment.acknowledged, segment.window) == (Some(self.acknowledged), self.window);
        let is_repetition = is_empty && is_equal && self.next.is_some_and(|next| self.acknowledged < next);
        self.repeats = self.repeats.saturating_add(is_repetition.into());
        is_repetition && self.repeats >= 3
    }

    /// Notes what a segment of the peer acknowledges, and its window. An old segment says nothing about the window. Returns
    /// whether smoltcp must not see that the window is closed.
    pub(crate) fn hear(&mut self, acknowledged: TcpSeqNumber, window: u16) -> bool {
        let Some(next) = self.next.filter(|&next| self.acknowledged <= acknowledged && acknowledged <= next) else {
            return false;
        };
        if (acknowledged, window) != (self.acknowledged, self.window) {
            (self.acknowledged, self.window, self.repeats) = (acknowledged, window, 0);
        }
        let is_closed = window == 0;
        // If smoltcp knows that the window is closed, only the byte that probes the window is under way.
        let is_hidden = is_closed && !self.is_shown && acknowledged < next;
        self.is_shown = is_closed && !is_hidden;
        is_hidden
    }

    /// Returns the number of a segment without data that the peer accepts.
    fn acceptable(&self) -> Option<TcpSeqNumber> {
        if self.window == 0 { Some(self.acknowledged) } else { self.next }
    }
}

/// Calls `act` with the segment in a frame, if there is one, and its addresses.
fn with_segment(frame: &mut [u8], act: impl FnOnce(TcpPacket<&mut [u8]>, [IpAddress; 2])) {
    let mut frame = EthernetFrame::new_unchecked(frame);
    match frame.ethertype() {
        EthernetProtocol::Ipv4 => {
            let mut packet = Ipv4Packet::new_unchecked(frame.payload_mut());
            if packet.next_header() == IpProtocol::Tcp {
                let ends = [packet.src_addr(), packet.dst_addr()].map(IpAddress::Ipv4);
                act(TcpPacket::new_unchecked(packet.payload_mut()), ends);
            }
        }
        EthernetProtocol::Ipv6 => {
            let mut packet = Ipv6Packet::new_unchecked(frame.payload_mut());
            if packet.next_header() == IpProtocol::Tcp {
                let ends = [packet.src_addr(), packet.dst_addr()].map(IpAddress::Ipv6);
                act(TcpPacket::new_unchecked(packet.payload_mut()), ends);
            }
        }
        _ => {}
    }
}

/// Changes the window that a received segment names to the smallest one that is not closed. The checksum of the segment was
/// checked before.
pub(crate) fn open_window(frame: &mut [u8]) {
    with_segment(frame, |mut segment, _| segment.set_window_len(1));
}

/// Notes the numbers of a frame that a socket sends, and lets a segment without data have a number that the peer accepts.
pub(crate) fn number(frame: &mut [u8], sent: &mut Sent) {
    with_segment(frame, |segment, ends| number_segment(segment, ends, sent));
}

fn number_segment(mut segment: TcpPacket<&mut [u8]>, [from, to]: [IpAddress; 2], sent: &mut Sent) {
    let end = segment.seq_number() + segment.segment_len();
    if segment.ack() {
        sent.expected = segment.ack_number();
    }
    if segment.syn() {
        (sent.first, sent.acknowledged) = (end, end);
    }
    // A reset without an acknowledgement has the number that the peer expects.
    if segment.segment_len() == 0
        && segment.ack()
        && let Some(number) = sent.acceptable()
    {
        if number != end {
            segment.set_seq_number(number);
            segment.fill_checksum(&from, &to);
        }
    } else if !segment.rst() && sent.next.is_none_or(|next| next < end) {
        sent.next = Some(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::fill_segment;
    use crate::packet::{Class, classify};
    use crate::tests::datagram;

    const ACK: u8 = 16;
    const RST: u8 = 4;
    const SYN: u8 = 2;
    const FIN: u8 = 1;

    /// Lets a socket send a segment. Returns the number that the peer gets.
    fn send(sent: &mut Sent, sequence: i32, flags: u8, bytes: usize) -> i32 {
        let mut frame = datagram(0, 0, &alloc::vec![0; 12 + bytes]);
        fill_segment(&mut frame, |segment| {
            segment.set_header_len(20);
            segment.set_seq_number(TcpSeqNumber(sequence));
            segment.set_ack(flags & ACK != 0);
            segment.set_rst(flags & RST != 0);
            segment.set_syn(flags & SYN != 0);
            segment.set_fin(flags & FIN != 0);
        });
        number(&mut frame, sent);
        let Class::Connection(_, segment) = classify(&frame) else { panic!("no segment") };
        segment.sequence.cast_signed()
    }

    #[test]
    fn segment_without_data_gets_the_first_number_that_was_never_used() {
        let mut sent = Sent::new();
        let mut sends = |sequence, flags, bytes| send(&mut sent, sequence, flags, bytes);
        assert_eq!(sends(i32::MAX - 99, ACK, 100), i32::MAX - 99);
        assert_eq!(sends(i32::MIN, ACK, 100), i32::MIN);
        // These bytes are sent again.
        assert_eq!(sends(i32::MAX - 99, ACK, 100), i32::MAX - 99);
        assert_eq!(sends(i32::MIN, ACK, 0), i32::MIN + 100);
        assert_eq!(sends(i32::MIN + 100, ACK, 0), i32::MIN + 100);
        assert_eq!(sends(i32::MIN, ACK | RST, 0), i32::MIN + 100);
        // The peer has named this number.
        assert_eq!(sends(i32::MIN, RST, 0), i32::MIN);
        assert_eq!(sends(i32::MIN + 100, ACK | FIN, 0), i32::MIN + 100);
        assert_eq!(sends(i32::MIN, ACK, 0), i32::MIN + 101);
    }

    #[test]
    fn segment_without_data_gets_the_number_that_a_peer_with_a_closed_window_expects() {
        let mut sent = Sent::new();
        let hear = |sent: &mut Sent, number, window| sent.hear(TcpSeqNumber(number), window);
        send(&mut sent, i32::MAX - 99, SYN | ACK, 0);
        assert_eq!(send(&mut sent, i32::MAX - 98, ACK, 98), i32::MAX - 98);
        hear(&mut sent, i32::MAX, 0);
        // In turn: a byte that probes the window, the same byte again, and a segment that the peer has no room for.
        for bytes in [1, 1, 100] {
            assert_eq!(send(&mut sent, i32::MAX, ACK, bytes), i32::MAX);
            for flags in [ACK, ACK | RST] {
                assert_eq!(send(&mut sent, i32::MAX, flags, 0), i32::MAX);
                assert_eq!(send(&mut sent, i32::MIN, flags, 0), i32::MAX);
            }
        }
        // An old segment, and one that acknowledges what was not sent.
        for number in [i32::MAX - 1, i32::MIN + 100] {
            hear(&mut sent, number, 9);
            assert_eq!(send(&mut sent, i32::MAX, ACK, 0), i32::MAX);
        }
        // The peer has had room for the byte.
        hear(&mut sent, i32::MIN, 0);
        assert_eq!(send(&mut sent, i32::MAX, ACK, 0), i32::MIN);
        hear(&mut sent, i32::MIN, 9);
        assert_eq!(send(&mut sent, i32::MIN, ACK, 0), i32::MIN + 99);
    }
}
