//! The memory into which the machine publishes its numbers: [shared memory](crate::shared_memory).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use gmp_sched::scheduler::PROCESSOR_LIMIT;
use gmp_sched::snapshot::{SEQUENCE, Snapshot, words};

/// The size of a word in bytes.
const WORD: usize = size_of::<u64>();

/// A handle to the memory.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    /// Makes a reader of the shared memory, which is the file `file`.
    pub(super) fn new(file: File) -> Self {
        Self(file)
    }

    /// Copies the numbers. Returns `None` if the machine has published none yet, or if it has written to the memory
    /// during the copy.
    pub(super) fn read(&self) -> Option<Snapshot> {
        let mut bytes = vec![0; words(PROCESSOR_LIMIT) * WORD];
        self.0.read_exact_at(&mut bytes, 0).ok()?;
        let copy: Vec<_> = bytes.as_chunks::<WORD>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let now = self.word(SEQUENCE).ok()?;
        (now == copy[SEQUENCE]).then(|| Snapshot::from_words(&copy)).flatten()
    }

    fn word(&self, index: usize) -> io::Result<u64> {
        let mut bytes = [0; WORD];
        self.0.read_exact_at(&mut bytes, (index * WORD) as u64)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
