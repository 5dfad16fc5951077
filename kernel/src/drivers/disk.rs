//! Disks: reads and writes of any range of bytes. The caller chooses whether a call blocks its G together
//! with its M, or only its G.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use boot_protocol::command_line::DiskOption;
use gmp_sched::platform::OutOfResources;
use kernel_virtio::block::{Request, SECTOR_SIZE, stripes};
use spin::Once;

use crate::cpu::contexts;
use crate::drivers::virtio;
use crate::drivers::virtio::call::{Call, Mode};
use crate::drivers::virtio::device::BlockDevice;
use crate::sched::blocking;
use crate::sched::kthread;
use crate::sched::platform::Limit;

pub use crate::drivers::self_interrupt::{interrupt, wait_for_interrupt};

pub(crate) use crate::drivers::virtio::memory_disk::{Model, tick};

pub use crate::drivers::disk_cursor::DiskCursor;
pub use crate::drivers::disk_error::{DiskError, PciError, RequestError, SetupError};

/// A disk. Its contents are those of a file on the host.
#[derive(Debug)]
pub struct Disk {
    name: String,
    bytes: u64,
    device: Result<&'static BlockDevice, SetupError>,
}

static DISKS: Once<Vec<Disk>> = Once::new();

/// Returns the disks, in the order of their bus addresses. This is also the order of the `--disk` options of `boot`.
#[must_use]
pub fn disks() -> &'static [Disk] {
    DISKS.get().map_or(&[], Vec::as_slice)
}

/// Finds the disks. `options` has the descriptions of the disks that `boot` has announced, in the order of their bus
/// addresses. A device that is silent for `time_limit` is reset. Disks in memory answer as `model` says. Called once,
/// after all CPUs have started.
pub(crate) fn init(mut options: impl Iterator<Item = &'static str>, time_limit: Duration, model: Model) {
    virtio::init(time_limit, model);
    let devices = virtio::block_devices().iter().map(|device| device.as_ref().map_err(|&error| error));
    let mut disks: Vec<Disk> =
        devices.enumerate().map(|(index, device)| Disk::new(index, device, options.next())).collect();
    // A disk that `boot` has announced is listed even if no device was found for it. Accesses to such a disk fail.
    disks.extend(options.enumerate().map(|(index, option)| Disk::new(index, Err(SetupError::Missing), Some(option))));
    DISKS.call_once(|| disks);
}

impl Disk {
    fn new(index: usize, device: Result<&'static BlockDevice, SetupError>, option: Option<&'static str>) -> Self {
        // Only whole blocks can be read.
        let capacity = device.map(|device| {
            let block = device.properties().block_bytes as u64;
            device.properties().sectors * SECTOR_SIZE as u64 / block * block
        });
        let (name, bytes) = match option.and_then(DiskOption::parse) {
            Some(DiskOption { name, bytes }) => (name.to_string(), bytes),
            None => (format!("disk{index}"), capacity.unwrap_or(0)),
        };
        if let Ok(capacity) = capacity
            && bytes > capacity
        {
            log::warn!("disk `{name}` has {bytes} bytes, but only the first {capacity} can be read");
        }
        Self { name, bytes: bytes.min(capacity.unwrap_or(u64::MAX)), device }
    }

    /// Returns the name of the file as given to `boot`. If the kernel was not started by `boot`, the name is `disk` and
    /// a number.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the length of the disk in bytes, all of which can be read. This is the length of the file, which need
    /// not be a multiple of the sector size. But if the device ends within a block, the length is that of its whole
    /// blocks. If the kernel was not started by `boot` and the device could not be set up, the length is 0, and every
    /// access fails with [`DiskError::Unusable`].
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the disk is read-only. Returns `false` if the device could not be set up.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.device.is_ok_and(|device| device.properties().is_read_only)
    }

    /// Returns the disk, with calls that block the calling G and its M. The calls are system calls that hand the P off
    /// at once.
    #[must_use]
    pub fn blocking(&self) -> DiskAccess<'_> {
        DiskAccess { disk: self, mode: Mode::Blocking }
    }

    /// Returns the disk, with calls that block only the calling G. The interrupt of the device readies the G.
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

    /// Returns two numbers: how many requests can be in flight, and how many more can be submitted at the moment. The
    /// numbers count buffers, so a request with several buffers counts several times. A request needs a buffer for each
    /// 64 KiB of its data, or more buffers if the device accepts only smaller ones. Both numbers are 0 if the device
    /// could not be set up.
    #[must_use]
    pub fn requests(&self) -> (usize, usize) {
        self.device.map_or((0, 0), |device| (device.capacity(), device.free_buffers()))
    }

    /// Returns the device if it was set up.
    ///
    /// # Panics
    /// If the caller may not block. Without this check, a request could be submitted before the caller panics.
    #[track_caller]
    fn usable_device(&self) -> Result<&'static BlockDevice, DiskError> {
        contexts::assert_may_block();
        self.device.map_err(DiskError::Unusable)
    }

    /// Like [`usable_device`](Self::usable_device), but also checks that the device contains the `length` bytes from
    /// `offset` on.
    #[track_caller]
    fn device(&self, offset: u64, length: usize) -> Result<&'static BlockDevice, DiskError> {
        let device = self.usable_device()?;
        let end = offset.checked_add(length as u64).ok_or(DiskError::OutOfRange)?;
        let block = device.properties().block_bytes as u64;
        let capacity = device.properties().sectors * SECTOR_SIZE as u64;
        if end.checked_next_multiple_of(block).is_none_or(|end| end > capacity) {
            return Err(DiskError::OutOfRange);
        }
        Ok(device)
    }

    /// Like [`device`](Self::device), but also checks that the bytes can be written.
    #[track_caller]
    fn writable_device(&self, offset: u64, length: u64) -> Result<&'static BlockDevice, DiskError> {
        let length_in_memory = usize::try_from(length).map_err(|_| DiskError::OutOfRange)?;
        let device = self.device(offset, length_in_memory)?;
        if device.properties().is_read_only {
            return Err(DiskError::ReadOnly);
        }
        if self.bytes.checked_sub(offset).is_none_or(|rest| rest < length) {
            return Err(DiskError::OutOfRange);
        }
        Ok(device)
    }
}

/// A disk, and how a G waits for it: [`Disk::blocking`] or [`Disk::asynchronous`]. Both ways have the same results and
/// errors, except that only blocking calls return [`DiskError::OutOfResources`]. Without a limit, each call waits until
/// the device has answered. Each call has a variant with a [`Limit`], whose name ends in `_until`.
///
/// If its limit ends a call, the call returns [`DiskError::Limit`] at once, but the device may still do what was
/// requested. So a write or a discard may happen before or after the return, or not at all. A later write to the same
/// sectors waits until the device has answered the earlier call, so the earlier call never destroys the later write.
/// Another G waits for this late answer. If there is no memory for that G, the call waits for the answer itself.
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
        let limit = limit.into();
        // If the device could not be set up, the error must be `Unusable`. The disk may then have the length 0, and the
        // check of the offset would return `OutOfRange`. So the device is checked first.
        self.disk.usable_device()?;
        let rest = self.disk.bytes.checked_sub(offset).ok_or(DiskError::OutOfRange)?;
        let length = usize::try_from(rest).map_or(buffer.len(), |rest| buffer.len().min(rest));
        let device = self.disk.device(offset, length)?;
        let block = device.properties().block_bytes;
        let mut position = offset;
        let mut buffer = &mut buffer[..length];
        while !buffer.is_empty() {
            let (sector, skip) = split(position, block);
            let (part, rest) = buffer.split_at_mut(buffer.len().min(device.request_bytes() - skip));
            let bytes = (skip + part.len()).next_multiple_of(block);
            let call = Call::admit(device, self.mode, bytes, None, &limit)?;
            call.run(Request::Read { sector, bytes })?.buffers().read(skip, part);
            position += part.len() as u64;
            buffer = rest;
        }
        Ok(length)
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
        let limit = limit.into();
        let device = self.disk.writable_device(offset, data.len() as u64)?;
        let block = device.properties().block_bytes;
        let mut position = offset;
        let mut data = data;
        while !data.is_empty() {
            let (sector, skip) = split(position, block);
            // Each part consists of whole blocks, or is within one block.
            let longest = if skip != 0 { block - skip } else { device.request_bytes() };
            let whole = data.len().min(longest);
            let length = if skip == 0 && whole > block { whole / block * block } else { whole };
            let (part, rest) = data.split_at(length);
            let bytes = (skip + length).next_multiple_of(block);
            let locked = device.lock_sectors(sector, (bytes / SECTOR_SIZE) as u64, &limit)?;
            let mut call = Call::admit(device, self.mode, bytes, Some(locked), &limit)?;
            if length < bytes {
                call = call.run(Request::Read { sector, bytes })?;
            }
            call.buffers().write(skip, part);
            call.run(Request::Write { sector, bytes })?;
            position += length as u64;
            data = rest;
        }
        Ok(())
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
        let device = self.disk.usable_device()?;
        if device.properties().has_cache {
            Call::admit(device, self.mode, 0, None, &limit.into())?.run(Request::Flush)?;
        }
        Ok(())
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
        let limit = limit.into();
        let device = self.disk.writable_device(offset, length)?;
        let in_block = (device.properties().block_bytes / SECTOR_SIZE) as u64;
        let most = u64::from(device.properties().max_discard_sectors).min(stripes::MAX_SECTORS) / in_block * in_block;
        if most == 0 {
            return Err(DiskError::Request(RequestError::Unsupported));
        }
        let block = device.properties().block_bytes as u64;
        let mut sector = offset.div_ceil(block) * in_block;
        let end = (offset + length) / block * in_block;
        while sector < end {
            let count = (end - sector).min(most);
            let locked = device.lock_sectors(sector, count, &limit)?;
            // The conversion loses nothing, because `most` is at most `u32::MAX`.
            let request = Request::Discard { sector, sectors: count as u32 };
            Call::admit(device, self.mode, 0, Some(locked), &limit)?.run(request)?;
            sector += count;
        }
        Ok(())
    }
}

/// Returns the first sector of the block that contains the byte at `offset`, and the byte's offset in that block.
fn split(offset: u64, block_bytes: usize) -> (u64, usize) {
    let skip = offset % block_bytes as u64;
    ((offset - skip) / SECTOR_SIZE as u64, usize::try_from(skip).expect("less than a block"))
}

/// Blocks the calling G and its M for `duration`, as a blocking call of a driver does, but uses no device. The P is
/// handed off at once. Tests of the handoff use this function instead of disk accesses, because the time of a disk
/// access varies from run to run. If `blocking_limit` (a kernel option) Ms are already blocked in drivers, the calling
/// G first waits until one of these calls has ended. This wait blocks only the G.
///
/// Programs should wait with [`sleep`](crate::platform::sleep), which blocks only the G. Not callable from interrupt
/// handlers.
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
    contexts::assert_may_block();
    let permit = blocking::admit(Limit::NONE).expect("a wait without a limit is not ended by one");
    let deadline = kthread::now() + duration;
    permit.block(|blocked| blocked.wait_for(deadline))
}
