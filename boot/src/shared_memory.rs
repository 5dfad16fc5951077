//! Memory that a machine shares with the host.
//!
//! The machine has a device whose memory is a file of the host (QEMU's `ivshmem-plain`). When the kernel writes into
//! this memory, there is no interrupt and no access to a device register. So the console is not disturbed, and with
//! `--icount` all runs stay equal.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use boot_protocol::observed_memory::Purpose;
use gmp_sched::scheduler::PROCESSOR_LIMIT;
use gmp_sched::snapshot::words;

use crate::Error;
use crate::memory_file;

/// The memory that a machine shares with the host.
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    purpose: Purpose,
}

/// The size of the memory for a purpose: a power of two.
const fn bytes(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Trace => 128 << 20,
        Purpose::Numbers => 1 << 20,
    }
}

const _: () = assert!(bytes(Purpose::Numbers) >= (words(PROCESSOR_LIMIT) * size_of::<u64>()) as u64);

impl SharedMemory {
    /// Makes the memory for `purpose`. The operating system frees the memory when the last handle to it is closed.
    ///
    /// # Errors
    ///
    /// [`Error::Qemu`] if the file for the memory cannot be made.
    pub fn new(purpose: Purpose) -> Result<Self, Error> {
        let made = || {
            let file = memory_file::nameless(bytes(purpose), bytes(purpose))?;
            file.write_all_at(&purpose.magic().to_le_bytes(), 0)?;
            Ok(Self { file, purpose })
        };
        made()
            .map_err(|error: io::Error| Error::Qemu(format!("cannot make the memory that the machine shares: {error}")))
    }

    /// Returns a handle through which the memory can be read and written.
    ///
    /// # Errors
    ///
    /// If this process has too many open files.
    pub fn reader(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Returns a file for the memory, and the QEMU arguments for the ivshmem device through which the machine sees this
    /// memory. The arguments name the file's descriptor (`/dev/fd/N`), so QEMU must inherit the file.
    pub(crate) fn device(&self) -> io::Result<(File, [OsString; 4])> {
        let memory = self.file.try_clone()?;
        let words = memory_file::device(self.purpose.name(), bytes(self.purpose), &memory_file::inherited(&memory));
        Ok((memory, words))
    }
}
