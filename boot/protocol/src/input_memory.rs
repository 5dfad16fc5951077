//! The memory through which the machine gets input at instants of its own clock: what its console receives, and the
//! frames of its network. The memory is that of the QEMU device `ivshmem-plain`. It consists of entries of
//! [`ENTRY_BYTES`]. The first entry is a header, and each other entry is a piece of the input. If the machine has a
//! network, the entries from [`SENT`] on are the frames that the machine sends.
//!
//! The kernel checks the next entry at regular instants. When the [`DUE`] time of this entry has come, the kernel takes
//! the entry, and writes the current time to [`AT`]. If the input comes from a script, the host fills all entries
//! before the machine starts. If the input is recorded, the host fills the next entry whenever input comes, and sets
//! its [`DUE`] time to [`AT_ONCE`]. The kernel executes the same instructions in both cases. So if the [`DUE`] times of
//! a script are the [`AT`] times of a recorded run, the run with this script is equal to the recorded one. The kernel
//! never reads what the host does with the frames that were sent, because that would differ from run to run.
//!
//! At each check, a machine with a network also writes to [`PACE_PORT`]. When a run is recorded, the host makes this
//! write wait, so that the machine's clock is not faster than that of its peers.

/// The size of an entry.
pub const ENTRY_BYTES: usize = 2048;

/// The first word of the header, by which the kernel distinguishes this memory from other shared memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"gmp inpt");
/// The index, in the header, of the word that contains the index of the first entry for a frame that the machine sends.
/// If this word is 0, the machine has no network.
pub const SENT: usize = 1;

/// The interval between two checks, in nanoseconds of the machine's clock.
pub const INTERVAL_NS: u64 = 10_000_000;
/// The port to which a machine with a network writes at each check.
pub const PACE_PORT: u16 = 0xe9;

/// The index, in an entry, of the word that contains the time when the entry is due, in nanoseconds of the machine's
/// clock.
pub const DUE: usize = 0;
/// The value of the [`DUE`] word of an entry that has no content yet.
pub const NEVER: u64 = 0;
/// The value of the [`DUE`] word of an entry that the machine takes at its next check.
pub const AT_ONCE: u64 = 1;
/// The index of the word to which the kernel writes the time when it takes the entry. Before that, the word is 0.
pub const AT: usize = 1;
/// The index of the word that contains the length of the data of the entry, in bytes. The machine writes it last when
/// it sends a frame. Before that, the word is 0.
pub const LENGTH: usize = 2;
/// The index of the word that contains the [`Kind`](crate::input::Kind) of the entry.
pub const KIND: usize = 3;
/// The index of the word at which the data of the entry begins.
pub const DATA: usize = 4;

/// The number of words of an entry.
pub const ENTRY_WORDS: usize = ENTRY_BYTES / size_of::<u64>();
/// The maximum number of bytes of data in an entry.
pub const DATA_BYTES: usize = (ENTRY_WORDS - DATA) * size_of::<u64>();
