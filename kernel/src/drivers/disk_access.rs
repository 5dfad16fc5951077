//! Accesses to disks, for the machine and for the host. The module `host/disk` includes this file by its path. Each half
//! has the functions `read`, `write`, `flush` and `discard` of [`Disk`], which do the work.

use crate::disk::{Disk, DiskCursor, DiskError};
use crate::platform::Limit;

/// How a G waits for a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The G waits in a system call. Its M blocks, too, and the P is handed off.
    Blocking,
    /// Only the G parks.
    Asynchronous,
}

impl Disk {
    /// Returns the disk, with calls that block the calling G and its M. The calls are system calls that hand the P off
    /// at once.
    #[must_use]
    pub fn blocking(&self) -> DiskAccess<'_> {
        DiskAccess { disk: self, mode: Mode::Blocking }
    }

    /// Returns the disk, with calls that block only the calling G. The interrupt of the device readies the G.
    /// (The host has no such access to files, so on the host the M blocks, too.)
    #[must_use]
    pub fn asynchronous(&self) -> DiskAccess<'_> {
        DiskAccess { disk: self, mode: Mode::Asynchronous }
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
}

/// A disk, and how a G waits for it: [`Disk::blocking`] or [`Disk::asynchronous`]. Both ways have the same results and
/// errors, except that only blocking calls return [`DiskError::OutOfResources`]. Without a limit, each call waits until
/// the device has answered. Each call has a variant with a [`Limit`], whose name ends in `_until`.
///
/// If its limit ends a call, the call returns [`DiskError::Limit`] at once, but the device may still do what was
/// requested. So a write or a discard may happen before or after the return, or not at all. A later write to the same
/// sectors waits until the device has answered the earlier call, so the earlier call never destroys the later write.
/// Another G waits for this late answer. If there is no memory for that G, the call waits for the answer itself. (A call
/// to the host cannot be interrupted. So on the host a limit is checked only before the call, and never ends it.)
#[derive(Clone, Copy, Debug)]
pub struct DiskAccess<'a> {
    disk: &'a Disk,
    mode: Mode,
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

    /// Like [`cursor`](Self::cursor), but each call of the cursor waits no longer than `limit`.
    #[must_use]
    pub fn cursor_until(self, limit: impl Into<Limit<'a>>) -> DiskCursor<'a> {
        DiskCursor::new(self, limit.into(), self.disk.len_bytes())
    }
}

impl DiskAccess<'_> {
    /// Reads bytes from `offset` on. Returns the number of bytes read. Reads fewer bytes than the buffer holds only if
    /// the disk ends before the buffer is full.
    ///
    /// Blocks the calling G, and its M if the access is blocking. Not callable from interrupt handlers.
    ///
    /// # Errors
    ///
    /// See [`DiskError`]. If the error is `OutOfRange` or `Unusable`, nothing has been read. After other errors the
    /// beginning of the buffer may have been overwritten.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.read_at_until(offset, buffer, Limit::NONE)
    }

    /// Like [`read_at`](Self::read_at), but waits no longer than `limit`.
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
        self.disk.read(self.mode, offset, buffer, &limit.into())
    }

    /// Writes `data` from `offset` on. When this returns, the device has the data, but may keep it in a cache: see
    /// [`flush`](Self::flush).
    ///
    /// The device writes whole blocks. A block is a sector of 512 bytes, or several sectors if the device has larger
    /// blocks. If only a part of a block is to be written, the block is read first. No other write of this program to
    /// the block happens in between. If the length of the disk is not a multiple of the block size, a write to the last
    /// block extends the file on the host with zeros. The file then ends with the block.
    ///
    /// Blocks the calling G, and its M if the access is blocking. Not callable from interrupt handlers.
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

    /// Like [`write_at`](Self::write_at), but waits no longer than `limit`.
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
        self.disk.write(self.mode, offset, data, &limit.into())
    }

    /// Makes all data permanent that was written by calls that have returned without an error. If the device has no
    /// cache, the data is permanent already.
    ///
    /// Blocks the calling G, and its M if the access is blocking. Not callable from interrupt handlers.
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

    /// Like [`flush`](Self::flush), but waits no longer than `limit`.
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
        self.disk.flush(self.mode, &limit.into())
    }

    /// Informs the device that the `length` bytes from `offset` on are no longer needed. Their contents are undefined
    /// afterwards. Blocks of the device (see [`write_at`](Self::write_at)) that are only partly in this range keep
    /// their contents.
    ///
    /// Blocks the calling G, and its M if the access is blocking. Not callable from interrupt handlers.
    ///
    /// # Errors
    ///
    /// See [`DiskError`]. The error is `Request(Unsupported)` if the device has no such request.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn discard(&self, offset: u64, length: u64) -> Result<(), DiskError> {
        self.discard_until(offset, length, Limit::NONE)
    }

    /// Like [`discard`](Self::discard), but waits no longer than `limit`.
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
        self.disk.discard(self.mode, offset, length, &limit.into())
    }
}
