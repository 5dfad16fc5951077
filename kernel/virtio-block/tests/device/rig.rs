//! A driver with the fake device, as the tests use them.

use std::ops::{Deref, DerefMut};

use kernel_virtio_block::{Completion, OpenError};

use crate::fake::{Fake, Settings};
use crate::memory::Memory;

pub(crate) type Queue = kernel_virtio_block::Queue<Memory, u64>;

/// A device with its queues. Most tests use only the first queue, so this type dereferences to it.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) device: kernel_virtio_block::Device<Memory, Fake>,
    pub(crate) queues: Vec<Queue>,
}

impl Device {
    pub(crate) fn open(settings: Settings, max_queues: usize, max_pages: usize) -> Result<Self, OpenError> {
        let (device, queues) = kernel_virtio_block::Device::open(Fake::new(settings), max_queues, max_pages)?;
        Ok(Self { device, queues })
    }

    pub(crate) fn transport(&self) -> &Fake {
        self.device.transport()
    }

    pub(crate) fn reset(&mut self, now: u64, ended: impl FnMut(u16, Completion<u64>)) {
        let mut queues: Vec<&mut Queue> = self.queues.iter_mut().collect();
        self.device.reset(now, &mut queues, ended);
    }
}

impl Deref for Device {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queues[0]
    }
}

impl DerefMut for Device {
    fn deref_mut(&mut self) -> &mut Queue {
        &mut self.queues[0]
    }
}

pub(crate) const SECTORS: u64 = 4_096;

pub(crate) fn open(settings: Settings) -> Device {
    Device::open(settings, usize::MAX, usize::MAX).expect("the device can be used")
}
