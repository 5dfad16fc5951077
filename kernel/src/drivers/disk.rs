//! Disks: reads and writes that block the calling G and its M, while its P is handed off.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use boot_protocol::command_line::DiskOption;
use gmp_sched::platform::OutOfResources;
use spin::Once;

use crate::drivers::virtio;
use crate::drivers::virtio::blk::{BlockDevice, REQUEST_BYTES, SECTOR_SIZE};
use crate::sched::blocking::block;
use crate::sched::kthread;

pub use crate::drivers::disk_error::{DiskError, PciError, RequestError, SetupError};

/// A disk. Its contents are those of a file on the host.
#[derive(Debug)]
pub struct Disk {
    name: String,
    bytes: u64,
    device: Result<&'static BlockDevice, SetupError>,
}

static DISKS: Once<Vec<Disk>> = Once::new();

/// The disks, in the order of their bus addresses. This is also the order of the `--disk` options of `boot`.
#[must_use]
pub fn disks() -> &'static [Disk] {
    DISKS.get().map_or(&[], Vec::as_slice)
}

/// Finds the disks. `options` has the descriptions of the disks that `boot` has announced, in the order of their bus
/// addresses. Called once, after all CPUs have started.
pub(crate) fn init(mut options: impl Iterator<Item = &'static str>) {
    virtio::init();
    let devices = virtio::block_devices().iter().map(|device| device.as_ref().map_err(|&error| error));
    let mut disks: Vec<Disk> =
        devices.enumerate().map(|(index, device)| Disk::new(index, device, options.next())).collect();
    // A disk that `boot` has announced is listed even if no device was found for it. Accesses to such a disk fail.
    disks.extend(options.enumerate().map(|(index, option)| Disk::new(index, Err(SetupError::Missing), Some(option))));
    DISKS.call_once(|| disks);
}

impl Disk {
    fn new(index: usize, device: Result<&'static BlockDevice, SetupError>, option: Option<&'static str>) -> Self {
        let capacity = device.map_or(0, |device| device.sectors().saturating_mul(SECTOR_SIZE as u64));
        let (name, bytes) = match option.and_then(DiskOption::parse) {
            Some(DiskOption { name, bytes }) => (name.to_string(), bytes),
            None => (format!("disk{index}"), capacity),
        };
        if bytes > capacity && device.is_ok() {
            log::warn!("disk `{name}` is said to have {bytes} bytes, the device has {capacity}");
        }
        Self { name, bytes, device }
    }

    /// The name of the file as given to `boot`. If the kernel was not started by `boot`, the name is `disk` and a number.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The length of the disk in bytes. This is the length of the file, which need not be a multiple of the sector
    /// size.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the disk is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.device.is_ok_and(BlockDevice::is_read_only)
    }

    /// Reads bytes from `offset` on. Returns the number of bytes read. Reads fewer bytes than the buffer holds only if
    /// the disk ends before the buffer is full.
    ///
    /// Blocks the calling G and its M; the P is handed off at once. Not callable from interrupts.
    ///
    /// # Errors
    ///
    /// See [`DiskError`]. If the error is `OutOfRange`, `OutOfResources` or `Unusable`, nothing has been read. After other
    /// errors the beginning of the buffer may have been overwritten.
    ///
    /// # Panics
    ///
    /// If the caller is not a G.
    #[track_caller]
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let rest = self.bytes.checked_sub(offset).ok_or(DiskError::OutOfRange)?;
        let length = usize::try_from(rest).map_or(buffer.len(), |rest| buffer.len().min(rest));
        let device = self.device(offset, length)?;
        if length == 0 {
            return Ok(0);
        }
        block(|blocked| {
            let mut position = offset;
            let mut buffer = &mut buffer[..length];
            while !buffer.is_empty() {
                let (sector, skip) = split(position);
                let (part, rest) = buffer.split_at_mut(buffer.len().min(REQUEST_BYTES - skip));
                device.read(blocked, sector, skip, part)?;
                position += part.len() as u64;
                buffer = rest;
            }
            Ok(length)
        })?
    }

    /// Writes whole sectors. `offset` must be the start of a sector. When this returns, the host's file has the data,
    /// but the host may not have written the data to its own disk yet.
    ///
    /// Blocks the calling G and its M; the P is handed off at once. Not callable from interrupts.
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
        let (mut sector, skip) = split(offset);
        let device = self.device(offset, data.len())?;
        if device.is_read_only() {
            return Err(DiskError::ReadOnly);
        }
        if self.bytes.checked_sub(offset).is_none_or(|rest| rest < data.len() as u64) {
            return Err(DiskError::OutOfRange);
        }
        if skip != 0 || !data.len().is_multiple_of(SECTOR_SIZE) {
            return Err(DiskError::Unaligned);
        }
        block(|blocked| {
            for part in data.chunks(REQUEST_BYTES) {
                device.write(blocked, sector, part)?;
                sector += (part.len() / SECTOR_SIZE) as u64;
            }
            Ok(())
        })?
    }

    /// Returns the device if it works and has the `length` bytes from `offset` on.
    fn device(&self, offset: u64, length: usize) -> Result<&'static BlockDevice, DiskError> {
        let device = self.device.map_err(DiskError::Unusable)?;
        let end = offset.checked_add(length as u64).ok_or(DiskError::OutOfRange)?;
        if end.div_ceil(SECTOR_SIZE as u64) > device.sectors() {
            return Err(DiskError::OutOfRange);
        }
        Ok(device)
    }
}

/// The sector of the byte at `offset`, and the byte's offset in that sector.
fn split(offset: u64) -> (u64, usize) {
    let size = SECTOR_SIZE as u64;
    (offset / size, usize::try_from(offset % size).expect("less than a sector"))
}

/// Blocks the calling G and its M for `duration`, like a request to a device that transfers nothing. The P is handed
/// off at once. A disk access takes a different time in each run. This function always takes the same time, so tests of
/// the handoff that use it are deterministic.
///
/// Programs should wait with [`sleep`](crate::platform::sleep), which blocks only the G. Not callable from interrupts.
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
    let deadline = kthread::now() + duration;
    block(|blocked| blocked.wait_for(deadline))
}
