//! The block protocol: features, configuration, headers and statuses (virtio 1.2, 5.2).

use core::fmt;

use super::buffers::{BUFFER_BYTES, MAX_REQUEST_BUFFERS};
use crate::{INDIRECT, Transport};

/// The unit in which the device counts positions and lengths, in bytes.
pub const SECTOR_SIZE: usize = 512;

/// `VIRTIO_BLK_F_SIZE_MAX`: the configuration limits the number of bytes of each piece of memory of a request.
const SEGMENT_SIZE: u64 = 1 << 1;
/// `VIRTIO_BLK_F_SEG_MAX`: the configuration limits the number of pieces of memory of a request.
pub(super) const SEGMENTS: u64 = 1 << 2;
/// `VIRTIO_BLK_F_RO`: the device is read-only.
pub(super) const READ_ONLY: u64 = 1 << 5;
/// `VIRTIO_BLK_F_BLK_SIZE`: the device has blocks, of a size that the configuration contains.
const BLOCK_SIZE: u64 = 1 << 6;
/// `VIRTIO_BLK_F_FLUSH`: the device has a cache that can be flushed.
pub(super) const FLUSH: u64 = 1 << 9;
/// `VIRTIO_BLK_F_MQ`: the device has several queues, as many as the configuration says.
pub(super) const QUEUES: u64 = 1 << 12;
/// `VIRTIO_BLK_F_DISCARD`: the device can be told that the contents of sectors are no longer needed.
pub(super) const DISCARD: u64 = 1 << 13;
/// The features that this driver uses if the device has them.
pub(super) const SUPPORTED: u64 =
    SEGMENT_SIZE | SEGMENTS | READ_ONLY | BLOCK_SIZE | FLUSH | QUEUES | DISCARD | INDIRECT;

/// Offsets in the device's configuration (virtio 1.2, 5.2.4).
pub(super) const CAPACITY: usize = 0;
const MAX_SEGMENT_BYTES: usize = 8;
pub(super) const MAX_SEGMENTS: usize = 12;
const BLOCK_BYTES: usize = 20;
/// The number of queues is the upper half of this word.
pub(super) const NUM_QUEUES: usize = 32;
pub(super) const MAX_DISCARD_SECTORS: usize = 36;

/// The largest number of times that the configuration is read. It is read again if it has changed during the read.
const ATTEMPTS: usize = 16;

/// The properties that the device has reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Properties {
    /// The number of sectors.
    pub sectors: u64,
    /// Requests consist of whole blocks of this many bytes: a power of two from [`SECTOR_SIZE`] to [`BUFFER_BYTES`].
    pub block_bytes: usize,
    /// The largest number of buffers of one request. It is from 1 to [`MAX_REQUEST_BUFFERS`].
    pub max_segments: usize,
    /// The number of bytes of data in each buffer of a request; the last buffer may have fewer. It is a multiple of the
    /// block size.
    pub segment_bytes: usize,
    /// Whether the device refuses writes.
    pub is_read_only: bool,
    /// Whether the device has a cache that can be flushed. Otherwise written data is permanent when a write is
    /// completed.
    pub has_cache: bool,
    /// The largest number of sectors that one request can discard; 0 if the device cannot discard.
    pub max_discard_sectors: u32,
    /// The number of queues.
    pub queues: u16,
}

impl Properties {
    /// Reads the configuration of a device with these negotiated features. Returns `None` if it cannot be read, keeps
    /// changing, or makes no sense.
    pub(super) fn read(transport: &impl Transport, features: u64) -> Option<Self> {
        for _ in 0..ATTEMPTS {
            let before = transport.generation();
            let properties = Self::read_once(transport, features);
            if before == transport.generation() {
                return properties.filter(Self::makes_sense);
            }
        }
        None
    }

    fn read_once(transport: &impl Transport, features: u64) -> Option<Self> {
        let word = |offset| transport.configuration(offset);
        let word_if = |feature, offset, default| if features & feature != 0 { word(offset) } else { Some(default) };
        let sectors = u64::from(word(CAPACITY)?) | u64::from(word(CAPACITY + 4)?) << 32;
        let block_bytes = word_if(BLOCK_SIZE, BLOCK_BYTES, SECTOR_SIZE as u32)? as usize;
        // Like Linux, this driver assumes that a device without this feature accepts only one piece of data in a
        // request. Each buffer of a request is one piece of data.
        let segments = word_if(SEGMENTS, MAX_SEGMENTS, 1)? as usize;
        // The first piece of a write also contains the header.
        let piece_bytes = word_if(SEGMENT_SIZE, MAX_SEGMENT_BYTES, u32::MAX)? as usize;
        let segment_bytes = piece_bytes.saturating_sub(HEADER_BYTES).min(BUFFER_BYTES);
        Some(Self {
            sectors,
            block_bytes,
            max_segments: segments.clamp(1, MAX_REQUEST_BUFFERS),
            segment_bytes: segment_bytes - segment_bytes.checked_rem(block_bytes).unwrap_or(0),
            is_read_only: features & READ_ONLY != 0,
            has_cache: features & FLUSH != 0,
            max_discard_sectors: word_if(DISCARD, MAX_DISCARD_SECTORS, 0)?,
            queues: (word_if(QUEUES, NUM_QUEUES, 1 << 16)? >> 16) as u16,
        })
    }

    fn makes_sense(&self) -> bool {
        self.block_bytes.is_power_of_two()
            && (SECTOR_SIZE..=BUFFER_BYTES).contains(&self.block_bytes)
            && self.segment_bytes != 0
            && self.sectors.checked_mul(SECTOR_SIZE as u64).is_some()
            && self.queues != 0
    }

    /// Returns the number of buffers that a request with `bytes` bytes of data needs. A request without data needs one,
    /// too.
    pub fn buffers_for(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.segment_bytes).max(1)
    }

    /// Whether the device offers `request`, and the request consists of whole blocks within the device and is not too
    /// long.
    pub(super) fn allows(&self, request: Request) -> bool {
        let (sector, bytes) = match request {
            Request::Flush => return self.has_cache,
            Request::Read { sector, bytes } => (sector, bytes as u64),
            Request::Write { sector, bytes } if !self.is_read_only => (sector, bytes as u64),
            Request::Discard { sector, sectors } if !self.is_read_only && sectors <= self.max_discard_sectors => {
                (sector, u64::from(sectors) * SECTOR_SIZE as u64)
            }
            Request::Write { .. } | Request::Discard { .. } => return false,
        };
        let block = self.block_bytes as u64;
        let most = (self.max_segments * self.segment_bytes) as u64;
        let fits = matches!(request, Request::Discard { .. }) || bytes <= most;
        let start = sector.checked_mul(SECTOR_SIZE as u64);
        let end = sector.checked_add(bytes / SECTOR_SIZE as u64);
        bytes != 0
            && fits
            && bytes.is_multiple_of(block)
            && start.is_some_and(|start| start.is_multiple_of(block))
            && end.is_some_and(|end| end <= self.sectors)
    }
}

/// A request to the device. Positions are in sectors, and lengths of data in bytes. Both must be whole blocks of the
/// [size](Properties::block_bytes) of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Reads `bytes` bytes into the request's buffers.
    Read {
        /// The first sector.
        sector: u64,
        /// The length of the data.
        bytes: usize,
    },
    /// Writes the first `bytes` bytes of the request's buffers.
    Write {
        /// The first sector.
        sector: u64,
        /// The length of the data.
        bytes: usize,
    },
    /// Makes the data of all completed writes permanent.
    Flush,
    /// Informs the device that the contents of these sectors are no longer needed.
    Discard {
        /// The first sector.
        sector: u64,
        /// The number of sectors.
        sectors: u32,
    },
}

impl Request {
    /// Returns the header of the request (virtio 1.2, 5.2.6): type, a reserved word and the sector, in little endian.
    pub(super) fn header(self) -> [u8; HEADER_BYTES] {
        let (kind, sector): (u32, u64) = match self {
            Self::Read { sector, .. } => (0, sector),
            Self::Write { sector, .. } => (1, sector),
            Self::Flush => (4, 0),
            // The sectors of a discard are in its data, not in the header.
            Self::Discard { .. } => (11, 0),
        };
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        header
    }

    /// Returns the range of a discard, as the device expects it in the data: sector, number of sectors, flags. Returns
    /// `None` for any other request.
    pub(super) fn discarded_range(self) -> Option<[u8; RANGE_BYTES]> {
        let Self::Discard { sector, sectors } = self else { return None };
        let mut range = [0; RANGE_BYTES];
        range[..8].copy_from_slice(&sector.to_le_bytes());
        range[8..12].copy_from_slice(&sectors.to_le_bytes());
        Some(range)
    }

    /// Returns how many bytes of data the device reads, and how many it writes.
    pub(super) fn data_bytes(self) -> (usize, usize) {
        match self {
            Self::Read { bytes, .. } => (0, bytes),
            Self::Write { bytes, .. } => (bytes, 0),
            Self::Flush => (0, 0),
            Self::Discard { .. } => (RANGE_BYTES, 0),
        }
    }
}

/// The length of a request's header, in bytes.
pub(super) const HEADER_BYTES: usize = 16;
/// The length of the description of a range to discard, in bytes.
const RANGE_BYTES: usize = 16;

/// The value of the status byte before the device has written it. The protocol defines no status with this value.
pub(super) const NO_STATUS: u8 = 0xff;

/// Why a request to the device of a disk failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestError {
    /// The device reports an input/output error, or an unknown status.
    Failed,
    /// The device does not know the request, or the driver has not submitted it (see [`Refused`](super::Refused)).
    Unsupported,
    /// The device says that it has completed the request, but the status, or a part of the data, is missing.
    Short,
    /// The device was reset twice without having answered. After the first reset the driver submitted the request
    /// again.
    Silent,
    /// The device has violated the protocol, for example by completing a request that was not submitted. The driver
    /// does not use the device any more.
    Broken,
    /// The device was silent, so the driver reset it. But the device did not confirm the reset, or could not be set up
    /// again with the same properties. It may have been unplugged. The driver does not use the device any more.
    Gone,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "the device reports an input/output error",
            Self::Unsupported => "the device does not know the request",
            Self::Short => "the device has not answered the whole request",
            Self::Silent => "the device does not answer",
            Self::Broken => "the device does not keep to the protocol and is not used any more",
            Self::Gone => "the device cannot be set up again after a reset and is not used any more",
        })
    }
}

impl core::error::Error for RequestError {}

/// Returns the result of a request that the device has completed. `written` is the number of bytes that the device says
/// it has written, and `status` is the status byte.
pub(super) fn result(request: Request, written: u32, status: u8) -> Result<(), RequestError> {
    let (_, data) = request.data_bytes();
    match status {
        0 if written as usize > data => Ok(()),
        0 | NO_STATUS => Err(RequestError::Short),
        2 => Err(RequestError::Unsupported),
        _ => Err(RequestError::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Properties = Properties {
        sectors: 1_000,
        block_bytes: 1024,
        max_segments: 3,
        segment_bytes: 64 * 1024,
        is_read_only: false,
        has_cache: true,
        max_discard_sectors: 400,
        queues: 1,
    };

    #[test]
    fn headers_are_encoded_as_the_specification_says() {
        let write = Request::Write { sector: 0x0102_0304_0506, bytes: 512 };
        assert_eq!(write.header(), [1, 0, 0, 0, 0, 0, 0, 0, 6, 5, 4, 3, 2, 1, 0, 0]);
        assert_eq!(Request::Flush.header()[0], 4);
        let discard = Request::Discard { sector: 7, sectors: 0x0201 };
        assert_eq!(discard.header(), [11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(discard.discarded_range(), Some([7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn only_whole_blocks_on_the_disk_are_allowed() {
        let most = 3 * BUFFER_BYTES;
        let reads = [(0, 1024, true), (998, 1024, true), (0, most, true), (1, 1024, false), (0, 512, false)];
        let beyond = [(0, 0, false), (1_000, 1024, false), (u64::MAX, 1024, false), (0, most + 1024, false)];
        for (sector, bytes, is_allowed) in reads.into_iter().chain(beyond) {
            assert_eq!(DEVICE.allows(Request::Read { sector, bytes }), is_allowed, "{bytes} bytes from {sector} on");
            assert_eq!(DEVICE.allows(Request::Write { sector, bytes }), is_allowed, "{bytes} bytes from {sector} on");
        }
        assert!(DEVICE.allows(Request::Discard { sector: 600, sectors: 400 }));
        assert!(!DEVICE.allows(Request::Discard { sector: 0, sectors: 402 }), "more than the device's limit");
    }

    #[test]
    fn request_that_the_device_does_not_offer_is_not_allowed() {
        let device = Properties { is_read_only: true, has_cache: false, ..DEVICE };
        assert!(device.allows(Request::Read { sector: 0, bytes: 1024 }));
        for request in
            [Request::Write { sector: 0, bytes: 1024 }, Request::Discard { sector: 0, sectors: 2 }, Request::Flush]
        {
            assert!(!device.allows(request), "{request:?}");
        }
    }

    #[test]
    fn answer_without_status_or_all_data_is_short() {
        let read = Request::Read { sector: 0, bytes: 512 };
        assert_eq!(result(read, 513, 0), Ok(()));
        assert_eq!(result(read, 512, 0), Err(RequestError::Short));
        assert_eq!(result(read, 513, NO_STATUS), Err(RequestError::Short));
        assert_eq!(result(read, 513, 1), Err(RequestError::Failed));
        assert_eq!(result(read, 1, 2), Err(RequestError::Unsupported));
        assert_eq!(result(Request::Flush, 1, 0), Ok(()));
    }
}
