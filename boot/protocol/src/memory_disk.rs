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

/// The value of a `disk_fault=` option: what a disk in memory does wrong, for tests of the driver. It has the form
/// `KIND` or `KIND@N`.
///
/// ```
/// use boot_protocol::memory_disk::{DiskFault, FaultKind};
///
/// assert_eq!(DiskFault::parse("lose@7"), Some(DiskFault { kind: FaultKind::Lose, only: Some(7) }));
/// assert_eq!(DiskFault::parse("short"), Some(DiskFault { kind: FaultKind::Short, only: None }));
/// assert_eq!(DiskFault::parse("lose@0"), None);
/// assert_eq!(DiskFault::parse("forget"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFault {
    /// What the disk does wrong.
    pub kind: FaultKind,
    /// The number of the only request that has the fault, from 1 on. Without a number, random requests have it.
    pub only: Option<u64>,
}

/// What a disk in memory does wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It answers as if it had written neither data nor status, although it has transferred the data.
    Short,
    /// It answers a request that does not exist, in place of this one.
    Id,
    /// It answers the request twice.
    Twice,
    /// It never answers the request.
    Lose,
    /// It reports an input/output error, and transfers no data.
    Error,
}

impl FaultKind {
    /// The word for each kind in the option.
    const WORDS: [(&'static str, Self); 5] = [
        ("short", Self::Short),
        ("id", Self::Id),
        ("twice", Self::Twice),
        ("lose", Self::Lose),
        ("error", Self::Error),
    ];
}

impl DiskFault {
    /// The values that [`parse`](Self::parse) accepts, for an error message.
    pub(crate) const EXPECTED: &str = "short, id, twice, lose or error, or one of these words followed by @N";

    /// Parses the value of a `disk_fault=` option. Returns `None` if the value has another form.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (word, only) = match value.split_once('@') {
            Some((word, number)) => (word, Some(number.parse().ok().filter(|&number| number != 0)?)),
            None => (value, None),
        };
        let (_, kind) = FaultKind::WORDS.into_iter().find(|&(name, _)| name == word)?;
        Some(Self { kind, only })
    }
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
