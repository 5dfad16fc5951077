//! Connections that have ended in order, and that this computer has closed first. For twice as long as a segment may be
//! under way, nobody can use their addresses and ports by mistake (RFC 9293, 3.6.1). A socket with its buffers would be
//! too much for that, so what is left of a connection is an entry in a table.
//!
//! The table is bounded. When it is full, the oldest entry is removed. Segments that come for it later belong to no
//! connection.

use alloc::collections::VecDeque;
use core::time::Duration;

use foldhash::fast::FixedState;
use gmp_sched::platform::Platform;
use gmp_sched::time::Instant;
use hashbrown::HashMap;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, IpRepr, TcpPacket, TcpSeqNumber};

use crate::connection::ACK_DELAY;
use crate::key::Key;
use crate::packet::Segment;
use crate::sequence::Sent;
use crate::state::State;

/// The largest number of entries of all shards. An entry takes less than 200 bytes.
pub(crate) const MOST: usize = 4096;
/// How long an entry is kept: as long as in Linux.
pub(crate) const KEPT: Duration = Duration::from_secs(60);
const ETHERNET_BYTES: usize = 14;
const SEGMENT_BYTES: usize = 20;

struct Entry {
    end: Instant,
    /// The first sequence number that this computer has not used, and the first one that the peer has not used.
    next: TcpSeqNumber,
    expected: TcpSeqNumber,
}

pub(crate) struct TimeWaits {
    by_key: HashMap<Key, Entry, FixedState>,
    /// When the entries end, in this order. The list also has elements of entries that were removed or renewed
    /// meanwhile.
    ends: VecDeque<(Instant, Key)>,
    /// The largest number of entries.
    most: usize,
}

impl TimeWaits {
    pub(crate) fn new(seed: u64, most: usize) -> Self {
        Self { by_key: HashMap::with_hasher(FixedState::with_seed(seed)), ends: VecDeque::new(), most }
    }

    /// Adds an entry, and removes those whose time is over. If there is no memory, the connection is forgotten.
    pub(crate) fn add(&mut self, key: Key, sent: &Sent, now: Instant) {
        let Some(next) = sent.next else { return };
        while self.ends.len() == self.most || self.ends.front().is_some_and(|(end, _)| *end <= now) {
            self.remove_oldest();
        }
        if self.by_key.try_reserve(1).is_ok() && self.ends.try_reserve(1).is_ok() {
            let end = now + KEPT;
            self.by_key.insert(key, Entry { end, next, expected: sent.expected });
            self.ends.push_back((end, key));
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((end, key)) = self.ends.pop_front()
            && self.by_key.get(&key).is_some_and(|entry| entry.end == end)
        {
            self.by_key.remove(&key);
        }
    }

    /// Whether a connection with this key has ended a short time ago.
    pub(crate) fn has(&self, key: Key, now: Instant) -> bool {
        self.by_key.get(&key).is_some_and(|entry| now < entry.end)
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.by_key.len()
    }
}

impl<Plat: Platform> State<Plat> {
    /// Adds an entry for a connection whose socket is in TIME-WAIT, unless the socket, which is `due` next, still has
    /// to acknowledge the end of the peer's data. After that, no segment goes to the connection, but the program may
    /// still read its data.
    pub(crate) fn enter_time_wait(&mut self, index: usize, due: Instant, now: Instant) {
        let Some(connection) = self.connections.get(index) else { return };
        // If the socket still has to acknowledge the end of the peer's data, it is due soon.
        let is_acknowledged = due > now + ACK_DELAY && !connection.sent.is_unresolved;
        let (key, sent) = (connection.key, connection.sent);
        if is_acknowledged && self.connections.find(key) == Some(index) {
            self.time_waits.add(key, &sent, now);
            self.connections.forget_key(index);
        }
    }

    /// Passes the segment that was received to the entry with this key. Answers what the peer sends again. Returns
    /// whether the segment begins a new connection, and the entry was removed: the sequence number of the segment shows
    /// that it is not an old one. (The other way round, old segments of this computer do not get into the new
    /// connection, because its first number is random.)
    pub(crate) fn begins_anew(&mut self, key: Key, segment: Segment, now: Instant) -> bool {
        let Some(entry) = self.time_waits.by_key.get(&key) else { return true };
        let &Entry { next, expected, .. } = entry;
        let sequence = TcpSeqNumber(segment.sequence.cast_signed());
        let is_new = segment.begins && sequence > expected;
        if is_new || (segment.is_rst && sequence == expected) {
            self.time_waits.by_key.remove(&key);
        } else if segment.bytes != 0 || segment.is_syn || segment.is_fin {
            self.time_waits.add(key, &Sent { next: Some(next), expected, ..Sent::new() }, now);
            self.acknowledge(key, next, expected);
        }
        is_new
    }

    /// Answers the received frame with an acknowledgement.
    fn acknowledge(&mut self, key: Key, next: TcpSeqNumber, expected: TcpSeqNumber) {
        let (from, to) = (key.local.into(), key.peer.into());
        let received = EthernetFrame::new_unchecked(&self.received[..]);
        let (src_addr, dst_addr) = (received.dst_addr(), received.src_addr());
        let ethertype = if key.local.is_ipv4() { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 };
        let ip = IpRepr::new(from, to, IpProtocol::Tcp, SEGMENT_BYTES, 64);
        self.wire.send(ETHERNET_BYTES + ip.buffer_len(), |frame| {
            let mut frame = EthernetFrame::new_unchecked(frame);
            EthernetRepr { src_addr, dst_addr, ethertype }.emit(&mut frame);
            ip.emit(frame.payload_mut(), &ChecksumCapabilities::default());
            let mut segment = TcpPacket::new_unchecked(&mut frame.payload_mut()[ip.header_len()..]);
            segment.set_src_port(key.port);
            segment.set_dst_port(key.peer_port);
            segment.set_seq_number(next);
            segment.set_ack_number(expected);
            segment.set_header_len(SEGMENT_BYTES as u8);
            segment.set_ack(true);
            segment.fill_checksum(&from, &to);
        });
    }
}
