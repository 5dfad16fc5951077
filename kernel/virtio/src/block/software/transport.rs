//! How the driver sets the software device up: the registers of a virtio device (virtio 1.2, 4 and 5.2).

use super::{ENTRIES, SoftwareDevice};
use crate::block::protocol::{
    CAPACITY, DISCARD, FLUSH, MAX_DISCARD_SECTORS, MAX_SEGMENTS, NUM_QUEUES, QUEUES, READ_ONLY, SEGMENTS,
};
use crate::block::{MAX_QUEUES, MAX_REQUEST_BUFFERS, SECTOR_SIZE};
use crate::device_queue::DeviceQueue;
use crate::{Dma, INDIRECT, Transport, VERSION_1};

/// The largest number of sectors that one request can discard.
const DISCARD_SECTORS: u32 = 1 << 15;

/// How the owner of a device locks it.
pub trait Access {
    /// The memory that driver and device share.
    type Memory: Dma;

    /// Calls `body` with the device, which is locked meanwhile.
    fn access<R>(&self, body: impl FnOnce(&mut SoftwareDevice<Self::Memory>) -> R) -> R;
}

/// The driver's way to the registers of a software device: implements [`Transport`]. The field is the owner's access,
/// which locks the device.
#[derive(Debug)]
pub struct Connection<A>(pub A);

impl<M: Dma> SoftwareDevice<M> {
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
    fn set_status(&mut self, status: u8) {
        self.status = status;
        if status == 0 {
            self.queues = [const { None }; MAX_QUEUES];
            self.pending.clear();
            self.resets += 1;
        }
    }
}

impl<A: Access> Transport for Connection<A> {
    fn offered_features(&mut self) -> u64 {
        self.0.access(|device| device.features())
    }

    fn accept_features(&mut self, _: u64) {}

    fn status(&self) -> u8 {
        self.0.access(|device| device.status)
    }

    fn set_status(&mut self, status: u8) {
        self.0.access(|device| device.set_status(status));
    }

    fn generation(&self) -> u8 {
        0
    }

    fn configuration(&self, offset: usize) -> Option<u32> {
        self.0.access(|device| device.configuration(offset))
    }

    fn queue_entries(&mut self, _: u16) -> u16 {
        ENTRIES
    }

    fn is_queue_set(&mut self, queue: u16) -> bool {
        self.0.access(|device| device.queues.get(usize::from(queue)).is_some_and(Option::is_some))
    }

    fn set_queue(&mut self, queue: u16, entries: u16, addresses: [u64; 3]) {
        self.0.access(|device| {
            if let Some(place) = device.queues.get_mut(usize::from(queue)) {
                *place = Some(DeviceQueue::new(entries, addresses));
            }
        });
    }
}
