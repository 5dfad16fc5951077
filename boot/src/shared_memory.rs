//! Memory that a machine shares with the host.
//!
//! The machine has a device whose memory is a file of the host (QEMU's `ivshmem-plain`). When the kernel writes into
//! this memory, there is no interrupt and no access to a device register. So the console is not disturbed, and with
//! `--icount` all runs stay equal.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use crate::Error;

/// The size of the memory.
const BYTES: u64 = 128 << 20;

/// The memory that a machine shares with the host.
#[derive(Debug)]
pub struct SharedMemory(File);

impl SharedMemory {
    /// Makes the memory. The operating system frees the memory when the last handle to it is closed.
    ///
    /// # Errors
    ///
    /// [`Error::Qemu`] if the file for the memory cannot be made.
    pub fn new() -> Result<Self, Error> {
        let made = nameless_file().and_then(|file| file.set_len(BYTES).map(|()| Self(file)));
        made.map_err(|error| Error::Qemu(format!("cannot make the memory that the machine shares: {error}")))
    }

    /// Returns a handle from which the memory can be read.
    ///
    /// # Errors
    ///
    /// If this process has too many open files.
    pub fn reader(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Returns a file for the memory, and the QEMU arguments for the ivshmem device through which the machine sees this
    /// memory. The arguments name the file's descriptor (`/dev/fd/N`), so QEMU must inherit the file.
    pub(crate) fn device(&self) -> io::Result<(File, [OsString; 4])> {
        let memory = self.0.try_clone()?;
        let backend =
            format!("memory-backend-file,id=shared,share=on,size={BYTES},mem-path=/dev/fd/{}", memory.as_raw_fd());
        let arguments = ["-object", &backend, "-device", "ivshmem-plain,memdev=shared"].map(OsString::from);
        Ok((memory, arguments))
    }
}

/// Makes a file without a name, in memory if possible. The system frees the file when its last handle is closed.
pub(crate) fn nameless_file() -> io::Result<File> {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { tempfile::tempfile_in(shared_memory) } else { tempfile::tempfile() }
}
