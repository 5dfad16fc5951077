//! A disk in memory, which the machine has in place of a virtio disk if instructions are counted. The memory is that of
//! the QEMU device `ivshmem-plain`. It begins with a [`Header`] of [`HEADER_BYTES`], and the content of the disk
//! follows.

/// The size of the header. The content that follows it begins at the start of a page.
pub const HEADER_BYTES: usize = 4096;

/// The first word of the header, by which the kernel distinguishes disks from other shared memory.
const MAGIC: u64 = u64::from_le_bytes(*b"gmp disk");

/// The bit in the third word of the header that is set if the disk is read-only.
const READ_ONLY: u64 = 1;

/// What the header says about the disk.
///
/// ```
/// use boot_protocol::memory_disk::Header;
///
/// let header = Header { bytes: 1024, is_read_only: true };
/// assert_eq!(Header::parse(header.words()), Some(header));
/// assert_eq!(Header::parse([0; 3]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The length of the content: whole sectors.
    pub bytes: u64,
    /// Whether the disk refuses writes.
    pub is_read_only: bool,
}

impl Header {
    /// The words of the header. They are in little endian in the memory.
    #[must_use]
    pub fn words(self) -> [u64; 3] {
        [MAGIC, self.bytes, u64::from(self.is_read_only) * READ_ONLY]
    }

    /// Parses the words of a header. Returns `None` if they are not those of a disk.
    #[must_use]
    pub fn parse([magic, bytes, flags]: [u64; 3]) -> Option<Self> {
        (magic == MAGIC).then_some(Self { bytes, is_read_only: flags & READ_ONLY != 0 })
    }
}
