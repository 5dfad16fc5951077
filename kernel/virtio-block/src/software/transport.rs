//! How the driver sets the software device up: the registers of a virtio device (virtio 1.2, 4 and 5.2).

use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{Error, PhysAddr, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::chain::{Rings, SharedMemory};
use super::{ENTRIES, SoftwareDevice};
use crate::buffer::MAX_REQUEST_BUFFERS;
use crate::device::MAX_QUEUES;
use crate::protocol::{
    CAPACITY, DISCARD, FLUSH, INDIRECT, MAX_DISCARD_SECTORS, MAX_SEGMENTS, NUM_QUEUES, QUEUES, READ_ONLY, SECTOR_SIZE,
    SEGMENTS, VERSION_1,
};

/// The largest number of sectors that one request can discard.
const DISCARD_SECTORS: u32 = 1 << 15;

/// How the owner of a device locks it.
pub trait Access {
    /// The memory that driver and device share.
    type Memory: SharedMemory;

    /// Calls `body` with the device, which is locked meanwhile.
    fn access<R>(&self, body: impl FnOnce(&mut SoftwareDevice<Self::Memory>) -> R) -> R;
}

/// The driver's way to the registers of a software device: implements [`Transport`]. The field is the owner's access to
/// the device, which locks the device.
#[derive(Debug)]
pub struct Connection<A>(pub A);

impl<M: SharedMemory> SoftwareDevice<M> {
    fn features(&self) -> u64 {
        let read_only = if self.is_read_only { READ_ONLY } else { DISCARD };
        SEGMENTS | FLUSH | QUEUES | INDIRECT | VERSION_1 | read_only
    }

    /// Returns the word at `offset` of the configuration, or `None` if the device has no such word.
    fn configuration(&self, offset: usize) -> Option<u32> {
        let sectors = (self.content.len() / SECTOR_SIZE) as u64;
        Some(match offset {
            CAPACITY => sectors as u32,
            _ if offset == CAPACITY + 4 => (sectors >> 32) as u32,
            MAX_SEGMENTS => MAX_REQUEST_BUFFERS as u32,
            NUM_QUEUES => (MAX_QUEUES as u32) << 16,
            MAX_DISCARD_SECTORS => DISCARD_SECTORS,
            _ => return None,
        })
    }

    /// Sets the status register. A status of zero resets the device: it drops its queues and all requests.
    fn set_status(&mut self, status: DeviceStatus) {
        self.status = status;
        if status == DeviceStatus::empty() {
            self.queues = [None; MAX_QUEUES];
            self.pending.clear();
            self.resets += 1;
        }
    }

    fn set_queue(&mut self, queue: u16, rings: Option<Rings>) {
        if let Some(place) = self.queues.get_mut(usize::from(queue)) {
            *place = rings;
        }
    }
}

impl<A: Access> Transport for Connection<A> {
    fn device_type(&self) -> DeviceType {
        DeviceType::Block
    }

    fn read_device_features(&mut self) -> u64 {
        self.0.access(|device| device.features())
    }

    fn write_driver_features(&mut self, _: u64) {}

    fn max_queue_size(&mut self, _: u16) -> u32 {
        ENTRIES.into()
    }

    /// Does nothing, because the driver notifies the owner of the device in another way.
    fn notify(&mut self, _: u16) {}

    fn get_status(&self) -> DeviceStatus {
        self.0.access(|device| device.status)
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.0.access(|device| device.set_status(status));
    }

    fn set_guest_page_size(&mut self, _: u32) {}

    fn requires_legacy_layout(&self) -> bool {
        false
    }

    fn queue_set(&mut self, queue: u16, size: u32, descriptors: PhysAddr, available: PhysAddr, used: PhysAddr) {
        // The driver never sets a size of zero, or one above `ENTRIES`.
        let rings = Rings::new(size as u16, descriptors, available, used);
        self.0.access(|device| device.set_queue(queue, Some(rings)));
    }

    fn queue_unset(&mut self, queue: u16) {
        self.0.access(|device| device.set_queue(queue, None));
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        self.0.access(|device| device.queues.get(usize::from(queue)).is_some_and(Option::is_some))
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        InterruptStatus::empty()
    }

    fn read_config_generation(&self) -> u32 {
        0
    }

    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T> {
        let word = self.0.access(|device| device.configuration(offset)).ok_or(Error::ConfigSpaceTooSmall)?;
        T::read_from_bytes(word.as_bytes()).map_err(|_| Error::ConfigSpaceTooSmall)
    }

    fn write_config_space<T: IntoBytes + Immutable>(&mut self, _: usize, _: T) -> Result<()> {
        Err(Error::ConfigSpaceTooSmall)
    }
}
