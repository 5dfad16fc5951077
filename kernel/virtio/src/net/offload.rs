//! What the device does with a frame that is sent: it computes the checksum of a segment of TCP, and cuts a long segment
//! into several (virtio 1.2, 5.1.6.2). So a frame with the data of many segments costs little more than a segment.

/// `VIRTIO_NET_F_CSUM`, `VIRTIO_NET_F_HOST_TSO4` and `VIRTIO_NET_F_HOST_TSO6`: the device computes checksums, and cuts
/// segments in packets of IPv4 and of IPv6. The driver uses all of them or none.
pub(super) const CUT: u64 = 1 | 1 << 11 | 1 << 12;

/// The largest frame that the device cuts: 22 segments that fill frames of Ethernet, with the headers of IPv4. Two such
/// frames almost fill the window of a connection. If one frame filled it, each frame would have to wait until the frame
/// before it has been acknowledged.
pub const CUT_FRAME_BYTES: usize = 14 + 20 + 20 + 22 * 1460;

/// The size of the device's header.
pub(super) const HEADER: usize = 12;

/// The flag which asks the device to compute the checksum, and the values which ask it to cut a segment.
const NEEDS_CHECKSUM: u8 = 1;
const CUT_IPV4: u8 = 1;
const CUT_IPV6: u8 = 4;

/// Where the packet begins in a frame.
const PACKET: usize = 14;
const TCP: u8 = 6;
/// Offsets in the header of TCP: of the checksum, and of the byte whose upper four bits are the length of the header.
const CHECKSUM: usize = 16;
const LENGTH: usize = 12;

/// What the device gets with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Offload {
    pub(super) header: [u8; HEADER],
    /// Where the checksum of a segment is in the frame, and what the device needs there: the sum of the pseudo-header,
    /// which consists of the addresses, the protocol and the length.
    pub(super) sum: Option<(usize, [u8; 2])>,
}

impl Offload {
    /// Returns what the device is to do for a frame: compute the checksum if the frame has a segment of TCP, and cut the
    /// segment if it has more than `segment_bytes` bytes of data.
    pub(super) fn of(frame: &[u8], segment_bytes: u16) -> Self {
        Self::of_segment(frame, segment_bytes).unwrap_or_default()
    }

    fn of_segment(frame: &[u8], segment_bytes: u16) -> Option<Self> {
        let byte = |at: usize| frame.get(at).copied();
        let (kind, protocol, start, addresses) = match frame.get(12..PACKET)? {
            [0x08, 0x00] => {
                let start = PACKET + 4 * usize::from(byte(PACKET)? & 15);
                (CUT_IPV4, byte(PACKET + 9)?, start, frame.get(PACKET + 12..PACKET + 20)?)
            }
            [0x86, 0xDD] => (CUT_IPV6, byte(PACKET + 6)?, PACKET + 40, frame.get(PACKET + 8..PACKET + 40)?),
            _ => return None,
        };
        if protocol != TCP {
            return None;
        }
        let end = start + 4 * usize::from(byte(start + LENGTH)? >> 4);
        let words = addresses.as_chunks().0.iter().map(|&word| u32::from(u16::from_be_bytes(word)));
        let sum = words.sum::<u32>() + u32::from(TCP) + frame.len().checked_sub(start)? as u32;
        // Adds the carries to the lower 16 bits, and then the carry of this addition.
        let sum = (sum & 0xFFFF) + (sum >> 16);
        let sum = ((sum & 0xFFFF) + (sum >> 16)) as u16;
        let mut header = [0; HEADER];
        header[0] = NEEDS_CHECKSUM;
        if frame.len().checked_sub(end)? > usize::from(segment_bytes) {
            header[1] = kind;
            header[2..4].copy_from_slice(&(end as u16).to_le_bytes());
            header[4..6].copy_from_slice(&segment_bytes.to_le_bytes());
        }
        header[6..8].copy_from_slice(&(start as u16).to_le_bytes());
        header[8..10].copy_from_slice(&(CHECKSUM as u16).to_le_bytes());
        Some(Self { header, sum: Some((start + CHECKSUM, sum.to_be_bytes())) })
    }
}
