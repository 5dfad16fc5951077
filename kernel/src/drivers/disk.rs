//! Disks: reads, writes and discards of any range of bytes, and flushes. The caller chooses whether a call blocks its G
//! together with its M, or only its G.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use boot_protocol::command_line::DiskOption;
use gmp_sched::platform::OutOfResources;
use kernel_virtio::block::{Request, SECTOR_SIZE, stripes};
use spin::Once;

use crate::cpu::contexts;
use crate::drivers::disk_access::Mode;
use crate::drivers::virtio;
use crate::drivers::virtio::call::Call;
use crate::drivers::virtio::device::BlockDevice;
use crate::sched::blocking;
use crate::sched::kthread;
use crate::sched::platform::Limit;

pub use crate::drivers::self_interrupt::{interrupt, wait_for_interrupt};

pub(crate) use crate::drivers::virtio::memory_disk::{Model, tick};

pub use crate::drivers::disk_access::DiskAccess;
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

impl Disk {
    /// Does what [`DiskAccess::read_at_until`] says.
    #[track_caller]
    pub(crate) fn read(
        &self,
        mode: Mode,
        offset: u64,
        buffer: &mut [u8],
        limit: &Limit<'_>,
    ) -> Result<usize, DiskError> {
        // If the device could not be set up, the error must be `Unusable`. The disk may then have the length 0, and the
        // check of the offset would return `OutOfRange`. So the device is checked first.
        self.usable_device()?;
        let rest = self.bytes.checked_sub(offset).ok_or(DiskError::OutOfRange)?;
        let length = usize::try_from(rest).map_or(buffer.len(), |rest| buffer.len().min(rest));
        let device = self.device(offset, length)?;
        let block = device.properties().block_bytes;
        let mut position = offset;
        let mut buffer = &mut buffer[..length];
        while !buffer.is_empty() {
            let (sector, skip) = split(position, block);
            let (part, rest) = buffer.split_at_mut(buffer.len().min(device.request_bytes() - skip));
            let bytes = (skip + part.len()).next_multiple_of(block);
            let call = Call::admit(device, mode, bytes, None, limit)?;
            call.run(Request::Read { sector, bytes })?.buffers().read(skip, part);
            position += part.len() as u64;
            buffer = rest;
        }
        Ok(length)
    }

    /// Does what [`DiskAccess::write_at_until`] says.
    #[track_caller]
    pub(crate) fn write(&self, mode: Mode, offset: u64, data: &[u8], limit: &Limit<'_>) -> Result<(), DiskError> {
        let device = self.writable_device(offset, data.len() as u64)?;
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
            let locked = device.lock_sectors(sector, (bytes / SECTOR_SIZE) as u64, limit)?;
            let mut call = Call::admit(device, mode, bytes, Some(locked), limit)?;
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

    /// Does what [`DiskAccess::flush_until`] says.
    #[track_caller]
    pub(crate) fn flush(&self, mode: Mode, limit: &Limit<'_>) -> Result<(), DiskError> {
        let device = self.usable_device()?;
        if device.properties().has_cache {
            Call::admit(device, mode, 0, None, limit)?.run(Request::Flush)?;
        }
        Ok(())
    }

    /// Does what [`DiskAccess::discard_until`] says.
    #[track_caller]
    pub(crate) fn discard(&self, mode: Mode, offset: u64, length: u64, limit: &Limit<'_>) -> Result<(), DiskError> {
        let device = self.writable_device(offset, length)?;
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
            let locked = device.lock_sectors(sector, count, limit)?;
            // The conversion loses nothing, because `most` is at most `u32::MAX`.
            let request = Request::Discard { sector, sectors: count as u32 };
            Call::admit(device, mode, 0, Some(locked), limit)?.run(request)?;
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
