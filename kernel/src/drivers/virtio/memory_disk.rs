//! Disks in memory. With `boot --icount` the machine has them in place of virtio disks, so that all runs are equal.
//!
//! The content of such a disk is [memory of the machine](crate::drivers::shared_memory), and the kernel itself is the
//! device: a [`SoftwareDevice`] answers the requests, each after a time that a model of a disk determines. The driver
//! uses such a disk like a virtio disk. It submits requests in queues of the same kind, and gets an interrupt when they
//! have been answered.
//!
//! | what a virtio disk does | what happens here |
//! |---|---|
//! | it reads a queue when the driver rings the doorbell | [`submit`](MemoryDisk::submit) reads the queue, and copies the data at once |
//! | it answers after some time | the timer of the CPU that has submitted the request fires, and [`tick`] answers |
//! | it interrupts the CPU of the queue | `tick` sends that CPU an interrupt, with the vector of the disk |
//!
//! The CPU that submits a request copies the data, which takes about one instruction for each eight bytes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use boot_protocol::memory_disk::{DiskFault, FaultKind};
use gmp_sched::time::Instant;
use kernel_virtio::block::software::{Access, Fault, Faults, Latency, SoftwareDevice};
use spin::Once;

use super::dma_pool::DmaPool;
use crate::arch::x86_64::apic;
use crate::arch::x86_64::interrupts::Vector;
use crate::cpu::cpus;
use crate::cpu::percpu::{self, CpuId};
use crate::cpu::sync::InterruptMutex;
use crate::drivers::shared_memory;
use crate::sched::kthread;

/// A disk in memory.
pub(crate) struct MemoryDisk {
    device: InterruptMutex<SoftwareDevice<DmaPool>>,
    /// The interrupt of the device. The driver sets it when it opens the device.
    vector: Once<Vector>,
    /// The CPU that gets the interrupts of the first queue.
    first_cpu: CpuId,
}

static DISKS: Once<Vec<&'static MemoryDisk>> = Once::new();

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDisk").field("first_cpu", &self.first_cpu).finish_non_exhaustive()
    }
}

/// The settings of the model of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// The access time in nanoseconds.
    pub(crate) access: u64,
    /// The seed of the random part of the access time, and of the choice of requests with faults.
    pub(crate) seed: u64,
    /// What the disk does wrong, for tests.
    pub(crate) fault: Option<DiskFault>,
}

/// Finds the disks in memory, in the order of their bus addresses. The interrupts of the disks go to different CPUs,
/// beginning with the CPU whose index is `first_cpu`. Called once.
pub(super) fn find(first_cpu: usize, model: Model) -> &'static [&'static MemoryDisk] {
    let disks = shared_memory::disks().into_iter().zip(first_cpu..).map(|(memory, index)| {
        // Each disk has its own random numbers.
        let seed = model.seed.wrapping_add(index as u64);
        let latency = Latency::new(model.access, seed);
        let faults = model.fault.map_or(Faults::NONE, |fault| faults(fault, seed));
        &*Box::leak(Box::new(MemoryDisk {
            device: InterruptMutex::new(SoftwareDevice::new(memory.content, memory.is_read_only, latency, faults)),
            vector: Once::new(),
            first_cpu: CpuId::new(index % cpus::count()),
        }))
    });
    DISKS.call_once(|| disks.collect())
}

/// Returns the faults of a disk. The complement of the seed makes them independent of the access times.
fn faults(DiskFault { kind, only }: DiskFault, seed: u64) -> Faults {
    let fault = match kind {
        FaultKind::Short => Fault::Short,
        FaultKind::Id => Fault::WrongId,
        FaultKind::Twice => Fault::Twice,
        FaultKind::Lose => Fault::Lost,
        FaultKind::Error => Fault::Error,
    };
    Faults::new(fault, only, !seed)
}

impl Access for &'static MemoryDisk {
    type Memory = DmaPool;

    fn access<R>(&self, body: impl FnOnce(&mut SoftwareDevice<DmaPool>) -> R) -> R {
        body(&mut self.device.lock())
    }
}

impl MemoryDisk {
    pub(super) fn first_cpu(&self) -> CpuId {
        self.first_cpu
    }

    /// Sets the interrupt by which the disk announces answers.
    pub(super) fn set_vector(&self, vector: Vector) {
        self.vector.call_once(|| vector);
    }

    /// Does the requests of a queue, and arms this CPU's timer for their answers. Not callable from interrupt handlers.
    pub(super) fn submit(&'static self, queue: u16) {
        loop {
            let taken = self.access(|device| device.take(queue, kthread::now().as_nanos()));
            let Some(mut work) = taken else { return };
            while self.access(|device| device.transfer(&mut work)) {}
            self.access(|device| {
                // Interrupts are off as long as the device is locked, so the caller stays on this CPU. Hence the answer
                // is recorded for the CPU whose timer is armed.
                if let Some(due) = device.finish(work, percpu::current().index()) {
                    kthread::arm(Instant::from_nanos(due));
                }
            });
        }
    }

    /// Answers the requests that are due, and interrupts the CPUs of their queues. Returns the time at which this CPU's
    /// timer must fire for the next answer, or `u64::MAX` if there is none.
    fn answer(&'static self, now: u64) -> u64 {
        let mut device = self.device.lock();
        let mut interrupted = 0u64;
        while let Some(queue) = device.complete(now) {
            interrupted |= 1 << queue;
        }
        let next = device.next_due(percpu::current().index()).unwrap_or(u64::MAX);
        drop(device);
        while interrupted != 0 {
            let queue = interrupted.trailing_zeros() as usize;
            interrupted &= interrupted - 1;
            if let Some(&vector) = self.vector.get() {
                apic::send(CpuId::new((self.first_cpu.index() + queue) % cpus::count()), vector);
            }
        }
        next
    }
}

/// Answers the requests that are due on all disks. Returns the time at which the timer of the calling CPU must fire for
/// the next answer, or `u64::MAX` if there is none. Called by the timer interrupt of every CPU.
pub(crate) fn tick(now: u64) -> u64 {
    DISKS.get().map_or(u64::MAX, |disks| disks.iter().map(|disk| disk.answer(now)).min().unwrap_or(u64::MAX))
}
