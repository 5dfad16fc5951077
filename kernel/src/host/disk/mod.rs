//! Disks on the host, which are files. The environment variable `GMP_DISKS` contains their names, separated by `:`. The
//! disks are writable only if `GMP_DISKS_WRITABLE` is 1.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use gmp_sched::platform::OutOfResources;
use gmp_sched::syscall::try_blocking;

use crate::host::platform::Kernel;
use crate::host::program::run::{WRONG_USE, fail};

pub use self::error::{DiskError, PciError, RequestError, SetupError};

#[path = "../../drivers/disk_error.rs"]
mod error;

const DISKS: &str = "GMP_DISKS";
const WRITABLE: &str = "GMP_DISKS_WRITABLE";

/// The position and the length of a write must be multiples of this number, as on the machine.
const SECTOR_SIZE: usize = 512;

/// A disk. On the host, a disk is a file.
#[derive(Debug)]
pub struct Disk {
    name: String,
    bytes: u64,
    is_read_only: bool,
    file: File,
}

static FOUND: OnceLock<Vec<Disk>> = OnceLock::new();

/// The disks, in the order in which `GMP_DISKS` names them.
#[must_use]
pub fn disks() -> &'static [Disk] {
    FOUND.get_or_init(open)
}

/// Opens the files when the program begins, so that a wrong name is reported at once.
pub(super) fn init() {
    let _ = disks();
}

fn open() -> Vec<Disk> {
    let is_read_only = env::var_os(WRITABLE).is_none_or(|value| value != "1");
    let names = env::var_os(DISKS).unwrap_or_default();
    let paths = env::split_paths(&names).filter(|path| !path.as_os_str().is_empty());
    paths
        .map(|path| {
            Disk::open(&path, is_read_only)
                .unwrap_or_else(|error| fail(WRONG_USE, format_args!("disk `{}`: {error}", path.display())))
        })
        .collect()
}

impl Disk {
    fn open(path: &Path, is_read_only: bool) -> std::io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(!is_read_only).open(path)?;
        // The length is found by seeking to the end, because the metadata of a block device does not contain its
        // length.
        let bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self { name: path.display().to_string(), bytes, is_read_only, file })
    }

    /// The name of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The length that the disk had when the program began, in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the disk is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Reads bytes from `offset` on. Returns the number of bytes read. Reads fewer bytes than the buffer holds only if
    /// the disk ends before the buffer is full.
    ///
    /// Blocks the calling G and its M; the P is handed off at once.
    ///
    /// # Errors
    ///
    /// See [`DiskError`]. If the error is `OutOfRange` or `OutOfResources`, nothing has been read. If it is `Request`,
    /// the beginning of the buffer may have been overwritten.
    ///
    /// # Panics
    ///
    /// If the caller is not a G.
    #[track_caller]
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let rest = self.bytes.checked_sub(offset).ok_or(DiskError::OutOfRange)?;
        let length = usize::try_from(rest).map_or(buffer.len(), |rest| buffer.len().min(rest));
        if length == 0 {
            return Ok(0);
        }
        let read = try_blocking::<Kernel, _>(|| self.file.read_exact_at(&mut buffer[..length], offset))?;
        read.map(|()| length).map_err(|_| DiskError::Request(RequestError::Failed))
    }

    /// Writes whole sectors. `offset` must be the start of a sector.
    ///
    /// Blocks the calling G and its M; the P is handed off at once.
    ///
    /// # Errors
    ///
    /// See [`DiskError`]. If the error is `Request`, some of the sectors may have been written. After any other error,
    /// nothing has been written.
    ///
    /// # Panics
    ///
    /// If the caller is not a G.
    #[track_caller]
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        let end = offset.checked_add(data.len() as u64).ok_or(DiskError::OutOfRange)?;
        let sectors = |bytes: u64| bytes.div_ceil(SECTOR_SIZE as u64);
        if sectors(end) > sectors(self.bytes) {
            return Err(DiskError::OutOfRange);
        }
        if self.is_read_only {
            return Err(DiskError::ReadOnly);
        }
        if end > self.bytes {
            return Err(DiskError::OutOfRange);
        }
        if !offset.is_multiple_of(SECTOR_SIZE as u64) || !data.len().is_multiple_of(SECTOR_SIZE) {
            return Err(DiskError::Unaligned);
        }
        let written = try_blocking::<Kernel, _>(|| self.file.write_all_at(data, offset))?;
        written.map_err(|_| DiskError::Request(RequestError::Failed))
    }
}

/// Blocks the calling G and its M for `duration`, like a request to a device that transfers nothing. The P is handed
/// off at once.
///
/// # Errors
///
/// If no M can be created to run the other Gs during the call. In that case the call returns at once.
///
/// # Panics
///
/// If the caller is not a G.
#[track_caller]
pub fn delay(duration: Duration) -> Result<(), OutOfResources> {
    try_blocking::<Kernel, _>(|| thread::sleep(duration))
}
