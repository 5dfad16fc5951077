//! Disks on the host, which are files. The environment variable `GMP_DISKS` contains their names, separated by `:`. The
//! disks are writable only if `GMP_DISKS_WRITABLE` is 1.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use gmp_sched::native::{assert_may_wait, try_blocking};
use gmp_sched::platform::OutOfResources;

use crate::host::platform::Limit;
use crate::host::program::run::{WRONG_USE, fail};

use self::access::Mode;

pub use self::access::DiskAccess;
pub use self::cursor::DiskCursor;
pub use self::error::{DiskError, PciError, RequestError, SetupError};
pub use self::interrupt::{interrupt, wait_for_interrupt};

pub(super) use self::interrupt::forget_interrupts;

#[path = "../../drivers/disk_access.rs"]
mod access;
#[path = "../../drivers/disk_cursor.rs"]
mod cursor;
#[path = "../../drivers/disk_error.rs"]
mod error;
mod interrupt;

const DISKS: &str = "GMP_DISKS";
const WRITABLE: &str = "GMP_DISKS_WRITABLE";

/// A discarded range is reduced to whole sectors of this many bytes. On the machine it is reduced to whole blocks,
/// which may be larger.
const SECTOR_SIZE: u64 = 512;

/// The largest number of requests that a disk of the machine can have in flight.
const REQUESTS: usize = 256;

/// A disk. On the host, a disk is a file.
#[derive(Debug)]
pub struct Disk {
    name: String,
    bytes: u64,
    is_read_only: bool,
    file: File,
}

static FOUND: OnceLock<Vec<Disk>> = OnceLock::new();

/// Returns the disks, in the order in which `GMP_DISKS` names them.
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
    fn open(path: &Path, is_read_only: bool) -> io::Result<Self> {
        // The kind is checked before the file is opened, because opening a FIFO blocks until the FIFO has a writer.
        let kind = fs::metadata(path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(io::Error::other("not a regular file or a block device"));
        }
        let mut file = OpenOptions::new().read(true).write(!is_read_only).open(path)?;
        // The length is found by seeking to the end, because the metadata of a block device does not contain its
        // length.
        let bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self { name: path.display().to_string(), bytes, is_read_only, file })
    }

    /// Returns the name of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the length that the disk had when the program began, in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the disk is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// On the machine, this function returns how many requests can be in flight, and how many more can be submitted at
    /// the moment. The host does not count requests, so here both numbers are always 256, the largest value on the
    /// machine.
    #[must_use]
    pub fn requests(&self) -> (usize, usize) {
        (REQUESTS, REQUESTS)
    }

    fn check_write(&self, offset: u64, length: u64) -> Result<(), DiskError> {
        let end = offset.checked_add(length).ok_or(DiskError::OutOfRange)?;
        if end.div_ceil(SECTOR_SIZE) > self.bytes.div_ceil(SECTOR_SIZE) {
            return Err(DiskError::OutOfRange);
        }
        if self.is_read_only {
            return Err(DiskError::ReadOnly);
        }
        if end > self.bytes { Err(DiskError::OutOfRange) } else { Ok(()) }
    }
}

/// Each access first checks that the caller may block, even if the access has nothing to do. So it panics in the same
/// places as on the machine.
impl Disk {
    fn call(&self, limit: &Limit<'_>, call: impl FnOnce(&File) -> io::Result<()>) -> Result<(), DiskError> {
        if let Some(error) = limit.err() {
            return Err(DiskError::Limit(error));
        }
        try_blocking(|| call(&self.file))?.map_err(|_| DiskError::Request(RequestError::Failed))
    }

    /// Does what [`DiskAccess::read_at_until`] says.
    #[track_caller]
    pub(crate) fn read(&self, _: Mode, offset: u64, buffer: &mut [u8], limit: &Limit<'_>) -> Result<usize, DiskError> {
        assert_may_wait();
        let rest = self.bytes.checked_sub(offset).ok_or(DiskError::OutOfRange)?;
        let length = usize::try_from(rest).map_or(buffer.len(), |rest| buffer.len().min(rest));
        if length != 0 {
            self.call(limit, |file| file.read_exact_at(&mut buffer[..length], offset))?;
        }
        Ok(length)
    }

    /// Does what [`DiskAccess::write_at_until`] says.
    #[track_caller]
    pub(crate) fn write(&self, _: Mode, offset: u64, data: &[u8], limit: &Limit<'_>) -> Result<(), DiskError> {
        assert_may_wait();
        self.check_write(offset, data.len() as u64)?;
        if data.is_empty() { Ok(()) } else { self.call(limit, |file| file.write_all_at(data, offset)) }
    }

    /// Does what [`DiskAccess::flush_until`] says.
    #[track_caller]
    pub(crate) fn flush(&self, _: Mode, limit: &Limit<'_>) -> Result<(), DiskError> {
        assert_may_wait();
        self.call(limit, File::sync_data)
    }

    /// Does what [`DiskAccess::discard_until`] says. (The contents do not change, but a program must not rely on that.)
    #[track_caller]
    pub(crate) fn discard(&self, _: Mode, offset: u64, length: u64, limit: &Limit<'_>) -> Result<(), DiskError> {
        assert_may_wait();
        self.check_write(offset, length)?;
        let (start, end) = (offset.next_multiple_of(SECTOR_SIZE), (offset + length) / SECTOR_SIZE * SECTOR_SIZE);
        // Nothing has to be done: the contents may be undefined afterwards, so the old contents are allowed.
        if start < end { self.call(limit, |_| Ok(())) } else { Ok(()) }
    }
}

/// Blocks the calling G and its M for `duration`, as a request to a device does, but transfers nothing. The P is handed
/// off at once. If as many Ms are blocked as the kernel option `blocking_limit` allows, first parks the calling G until
/// one of the blocking calls has ended.
///
/// # Errors
///
/// If no M can be created to run the other Gs during the call. The call then returns without waiting for `duration`.
///
/// # Panics
///
/// If the caller is not a G, or must not block.
#[track_caller]
pub fn delay(duration: Duration) -> Result<(), OutOfResources> {
    try_blocking(|| thread::sleep(duration))
}
