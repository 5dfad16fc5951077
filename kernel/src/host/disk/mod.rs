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

use gmp_sched::native::{assert_may_wait, try_blocking};
use gmp_sched::platform::OutOfResources;

use crate::host::platform::Limit;
use crate::host::program::run::{WRONG_USE, fail};

pub use self::cursor::DiskCursor;
pub use self::error::{DiskError, PciError, RequestError, SetupError};
pub use self::interrupt::{interrupt, wait_for_interrupt};

pub(super) use self::interrupt::forget_interrupts;

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
    fn open(path: &Path, is_read_only: bool) -> std::io::Result<Self> {
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

    /// Returns the disk, with calls that block the calling G and its M. The calls are system calls that hand the P off
    /// at once.
    #[must_use]
    pub fn blocking(&self) -> DiskAccess<'_> {
        DiskAccess { disk: self }
    }

    /// The same as [`blocking`](Self::blocking). On the machine, an asynchronous access blocks only the calling G. The
    /// host has no such access to files, so on the host the M is blocked, too.
    #[must_use]
    pub fn asynchronous(&self) -> DiskAccess<'_> {
        DiskAccess { disk: self }
    }

    /// Reads bytes from `offset` on, like [`DiskAccess::read_at`] of a [blocking](Self::blocking) access.
    ///
    /// # Errors
    ///
    /// In the cases of [`DiskAccess::read_at`].
    ///
    /// # Panics
    ///
    /// In the cases of [`DiskAccess::read_at`].
    #[track_caller]
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.blocking().read_at(offset, buffer)
    }

    /// Writes bytes from `offset` on, like [`DiskAccess::write_at`] of a [blocking](Self::blocking) access.
    ///
    /// # Errors
    ///
    /// In the cases of [`DiskAccess::write_at`].
    ///
    /// # Panics
    ///
    /// In the cases of [`DiskAccess::write_at`].
    #[track_caller]
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        self.blocking().write_at(offset, data)
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

/// A disk, and how a G waits for it: [`Disk::blocking`] or [`Disk::asynchronous`]. Each call waits until the host has
/// done what was requested. For each call there is a variant that takes a [`Limit`]. The name of the variant ends in
/// `_until`.
///
/// A call to the host cannot be interrupted. So a limit is checked only before the call, and never ends the call.
///
/// Each call first checks that the caller may block, even if the call has nothing to do. So it panics in the same
/// places as on the machine.
#[derive(Clone, Copy, Debug)]
pub struct DiskAccess<'a> {
    disk: &'a Disk,
}

impl<'a> DiskAccess<'a> {
    /// Returns the disk with a position, which implements the traits of the crate `embedded-io`. The position is 0 at
    /// first.
    ///
    /// ```
    /// use kernel::disk::{Disk, DiskError};
    /// use kernel::embedded_io::{Read as _, ReadExactError, Seek as _, SeekFrom, Write as _};
    ///
    /// /// Adds 1 to the number in the last eight bytes of a disk. Returns the new number.
    /// fn count(disk: &Disk) -> Result<u64, ReadExactError<DiskError>> {
    ///     let mut cursor = disk.asynchronous().cursor();
    ///     let mut bytes = [0; 8];
    ///     cursor.seek(SeekFrom::End(-8))?;
    ///     cursor.read_exact(&mut bytes)?;
    ///     let number = u64::from_le_bytes(bytes).wrapping_add(1);
    ///     cursor.seek(SeekFrom::End(-8))?;
    ///     cursor.write_all(&number.to_le_bytes())?;
    ///     cursor.flush()?;
    ///     Ok(number)
    /// }
    /// ```
    #[must_use]
    pub fn cursor(self) -> DiskCursor<'a> {
        self.cursor_until(Limit::NONE)
    }

    /// Like [`cursor`](Self::cursor), but each call of the cursor returns an error if `limit` is already over.
    #[must_use]
    pub fn cursor_until(self, limit: impl Into<Limit<'a>>) -> DiskCursor<'a> {
        DiskCursor::new(self, limit.into(), self.disk.len_bytes())
    }
}

impl DiskAccess<'_> {
    fn call(&self, limit: &Limit<'_>, call: impl FnOnce(&File) -> std::io::Result<()>) -> Result<(), DiskError> {
        if let Some(error) = limit.err() {
            return Err(DiskError::Limit(error));
        }
        try_blocking(|| call(&self.disk.file))?.map_err(|_| DiskError::Request(RequestError::Failed))
    }

    /// Reads bytes from `offset` on. Returns the number of bytes read. Reads fewer bytes than the buffer holds only if
    /// the disk ends before the buffer is full.
    ///
    /// Blocks the calling G and its M; the P is handed off at once.
    ///
    /// # Errors
    ///
    /// See [`DiskError`]. If the error is `OutOfRange`, `OutOfResources` or `Unusable`, nothing has been read. After
    /// other errors the beginning of the buffer may have been overwritten.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.read_at_until(offset, buffer, Limit::NONE)
    }

    /// Like [`read_at`](Self::read_at), but returns an error if `limit` is already over when this is called.
    ///
    /// # Errors
    ///
    /// In the cases of [`read_at`](Self::read_at), and if the limit is over.
    ///
    /// # Panics
    ///
    /// In the cases of [`read_at`](Self::read_at).
    #[track_caller]
    pub fn read_at_until<'l>(
        &self,
        offset: u64,
        buffer: &mut [u8],
        limit: impl Into<Limit<'l>>,
    ) -> Result<usize, DiskError> {
        assert_may_wait();
        let limit = limit.into();
        let rest = self.disk.bytes.checked_sub(offset).ok_or(DiskError::OutOfRange)?;
        let length = usize::try_from(rest).map_or(buffer.len(), |rest| buffer.len().min(rest));
        if length != 0 {
            self.call(&limit, |file| file.read_exact_at(&mut buffer[..length], offset))?;
        }
        Ok(length)
    }

    /// Writes `data` from `offset` on. When this returns, the device has the data, but may keep it in a cache: see
    /// [`flush`](Self::flush).
    ///
    /// Blocks the calling G and its M; the P is handed off at once.
    ///
    /// # Errors
    ///
    /// See [`DiskError`]. If the error is `OutOfRange`, `ReadOnly` or `Unusable`, nothing has been written. After other
    /// errors the beginning of the data may have been written.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        self.write_at_until(offset, data, Limit::NONE)
    }

    /// Like [`write_at`](Self::write_at), but returns an error if `limit` is already over when this is called.
    ///
    /// # Errors
    ///
    /// In the cases of [`write_at`](Self::write_at), and if the limit is over.
    ///
    /// # Panics
    ///
    /// In the cases of [`write_at`](Self::write_at).
    #[track_caller]
    pub fn write_at_until<'l>(&self, offset: u64, data: &[u8], limit: impl Into<Limit<'l>>) -> Result<(), DiskError> {
        assert_may_wait();
        let limit = limit.into();
        self.disk.check_write(offset, data.len() as u64)?;
        if data.is_empty() { Ok(()) } else { self.call(&limit, |file| file.write_all_at(data, offset)) }
    }

    /// Makes all data permanent that was written by calls that have returned without an error. If the device has no
    /// cache, the data is permanent already.
    ///
    /// Blocks the calling G and its M; the P is handed off at once.
    ///
    /// # Errors
    ///
    /// See [`DiskError`].
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn flush(&self) -> Result<(), DiskError> {
        self.flush_until(Limit::NONE)
    }

    /// Like [`flush`](Self::flush), but returns an error if `limit` is already over when this is called.
    ///
    /// # Errors
    ///
    /// In the cases of [`flush`](Self::flush), and if the limit is over.
    ///
    /// # Panics
    ///
    /// In the cases of [`flush`](Self::flush).
    #[track_caller]
    pub fn flush_until<'l>(&self, limit: impl Into<Limit<'l>>) -> Result<(), DiskError> {
        assert_may_wait();
        self.call(&limit.into(), File::sync_data)
    }

    /// Declares that the `length` bytes from `offset` on are no longer needed. Their contents are undefined afterwards.
    /// (On the host they do not change, but a program must not rely on that.) Sectors that are only partly in this
    /// range keep their contents.
    ///
    /// Blocks the calling G and its M; the P is handed off at once.
    ///
    /// # Errors
    ///
    /// See [`DiskError`].
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn discard(&self, offset: u64, length: u64) -> Result<(), DiskError> {
        self.discard_until(offset, length, Limit::NONE)
    }

    /// Like [`discard`](Self::discard), but returns an error if `limit` is already over when this is called.
    ///
    /// # Errors
    ///
    /// In the cases of [`discard`](Self::discard), and if the limit is over.
    ///
    /// # Panics
    ///
    /// In the cases of [`discard`](Self::discard).
    #[track_caller]
    pub fn discard_until<'l>(&self, offset: u64, length: u64, limit: impl Into<Limit<'l>>) -> Result<(), DiskError> {
        assert_may_wait();
        let limit = limit.into();
        self.disk.check_write(offset, length)?;
        let (start, end) = (offset.next_multiple_of(SECTOR_SIZE), (offset + length) / SECTOR_SIZE * SECTOR_SIZE);
        // Nothing has to be done: the contents may be undefined afterwards, so the old contents are allowed.
        if start < end { self.call(&limit, |_| Ok(())) } else { Ok(()) }
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
