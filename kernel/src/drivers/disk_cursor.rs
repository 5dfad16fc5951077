//! Disks with a position, for the machine and for the host. The module `host/disk` includes this file by its path.

use embedded_io::{ErrorType, Read, Seek, SeekFrom, Write};

use crate::disk::{DiskAccess, DiskError};
use crate::platform::Limit;

/// A disk with a position. Made by [`DiskAccess::cursor`], and implements the traits of the crate
/// [`embedded-io`](embedded_io), which other crates use for devices and files.
///
/// Reads and writes begin at the position, and move it forward by the number of bytes that they have read or written.
/// If they fail, the position stays. Each cursor has its own position: many Gs can use the same disk, each with a
/// cursor of its own. A cursor has no buffer, so each read or write accesses the device.
#[derive(Clone, Debug)]
pub struct DiskCursor<'a> {
    access: DiskAccess<'a>,
    /// The limit of all calls.
    limit: Limit<'a>,
    /// The length of the disk in bytes, which never changes.
    length: u64,
    position: u64,
}

impl<'a> DiskCursor<'a> {
    pub(crate) fn new(access: DiskAccess<'a>, limit: Limit<'a>, length: u64) -> Self {
        Self { access, limit, length, position: 0 }
    }
}

impl ErrorType for DiskCursor<'_> {
    type Error = DiskError;
}

impl Read for DiskCursor<'_> {
    /// Reads bytes from the position on. Returns the number of bytes read. Reads fewer bytes than the buffer holds only
    /// if the disk ends before the buffer is full, and none if the position is at or past the end.
    ///
    /// Blocks like [`DiskAccess::read_at`].
    ///
    /// # Errors
    ///
    /// In the cases of [`DiskAccess::read_at`], and if the limit of the cursor is over.
    ///
    /// # Panics
    ///
    /// In the cases of [`DiskAccess::read_at`].
    #[track_caller]
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let count = self.access.read_at_until(self.position.min(self.length), buffer, self.limit)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Write for DiskCursor<'_> {
    /// Writes data from the position on. Returns the number of bytes written. Writes only the beginning of `data` if
    /// the disk ends before the end of `data`.
    ///
    /// Blocks like [`DiskAccess::write_at`].
    ///
    /// # Errors
    ///
    /// In the cases of [`DiskAccess::write_at`], and if the limit of the cursor is over. The error is `OutOfRange` if
    /// the position is at or past the end, and `data` is not empty.
    ///
    /// # Panics
    ///
    /// In the cases of [`DiskAccess::write_at`].
    #[track_caller]
    fn write(&mut self, data: &[u8]) -> Result<usize, DiskError> {
        let rest = usize::try_from(self.length.saturating_sub(self.position)).unwrap_or(usize::MAX);
        // If there is no room at all, `write_at_until` returns the error.
        let part = if rest == 0 { data } else { &data[..data.len().min(rest)] };
        if !part.is_empty() {
            self.access.write_at_until(self.position, part, self.limit)?;
            self.position += part.len() as u64;
        }
        Ok(part.len())
    }

    /// Makes all data permanent that was written before, like [`DiskAccess::flush`].
    ///
    /// # Errors
    ///
    /// In the cases of [`DiskAccess::flush`], and if the limit of the cursor is over.
    ///
    /// # Panics
    ///
    /// In the cases of [`DiskAccess::flush`].
    #[track_caller]
    fn flush(&mut self) -> Result<(), DiskError> {
        self.access.flush_until(self.limit)
    }
}

impl Seek for DiskCursor<'_> {
    /// Sets the position, and returns it. The position may be past the end of the disk. Does not access the disk.
    ///
    /// # Errors
    ///
    /// [`DiskError::InvalidPosition`] if the position would be before the beginning of the disk, or more than the
    /// largest `u64`. The position then stays.
    fn seek(&mut self, target: SeekFrom) -> Result<u64, DiskError> {
        let position = match target {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.length.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position.ok_or(DiskError::InvalidPosition)?;
        Ok(self.position)
    }
}
