//! A driver with the fake device, as the tests use them.

use std::ops::{Deref, DerefMut};

use super::fake::{Fake, Settings};
use super::memory::Memory;
use crate::OpenError;
use crate::block::{self, Completion, Queue};

/// A device with its queues. Most tests use only the first queue, so this type dereferences to it.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) device: block::Device<Fake>,
    pub(super) queues: Vec<Queue>,
}

impl Device {
    pub(super) fn open(settings: Settings, max_queues: usize, max_pages: usize) -> Result<Self, OpenError> {
        let (device, queues) = block::Device::open::<Memory>(Fake::new(settings), max_queues, max_pages)?;
        Ok(Self { device, queues })
    }

    pub(super) fn transport(&self) -> &Fake {
        self.device.transport()
    }

    pub(super) fn reset(&mut self, now: u64, ended: impl FnMut(u16, Completion)) {
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

pub(super) const SECTORS: u64 = 4_096;

pub(super) fn open(settings: Settings) -> Device {
    Device::open(settings, usize::MAX, usize::MAX).expect("the device can be used")
}
