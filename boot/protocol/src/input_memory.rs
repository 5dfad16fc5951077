//! The memory through which the machine gets input at instants of its own clock. The memory is that of the QEMU device
//! `ivshmem-plain`. The memory consists of entries of [`ENTRY_BYTES`]. The first entry is a header, and each other
//! entry is a piece of the input.
//!
//! The kernel checks the next entry at regular instants. When the [`DUE`] time of this entry has come, the kernel takes
//! the entry, and writes the current time to [`AT`]. If the input comes from a script, the host fills all entries
//! before the machine starts. If the input is recorded, the host fills the next entry whenever input comes, and sets
//! its [`DUE`] time to 0. The kernel executes the same instructions in both cases. So if the [`DUE`] times of a script
//! are the [`AT`] times of a recorded run, the run with this script is equal to the recorded one.

/// The size of an entry.
pub const ENTRY_BYTES: usize = 512;

/// The first word of the header, by which the kernel distinguishes this memory from other shared memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"gmp inpt");

/// The index, in an entry, of the word that contains the time when the entry is due, in nanoseconds of the machine's
/// clock.
pub const DUE: usize = 0;
/// The value of the [`DUE`] word of an entry that has no content yet.
pub const NEVER: u64 = u64::MAX;
/// The index of the word to which the kernel writes the time when it takes the entry. Before that, the word is 0.
pub const AT: usize = 1;
/// The index of the word that contains the length of the data of the entry, in bytes.
pub const LENGTH: usize = 2;
/// The index of the word that contains the [`Kind`](crate::input::Kind) of the entry.
pub const KIND: usize = 3;
/// The index of the word at which the data of the entry begins.
pub const DATA: usize = 4;

/// The number of words of an entry.
pub const ENTRY_WORDS: usize = ENTRY_BYTES / size_of::<u64>();
/// The maximum number of bytes of data in an entry.
pub const DATA_BYTES: usize = (ENTRY_WORDS - DATA) * size_of::<u64>();
