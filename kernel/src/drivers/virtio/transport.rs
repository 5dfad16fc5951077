//! Virtio over PCI (virtio 1.2, 4.1): the registers of a device. Each queue interrupts by an entry of the device's MSI-X
//! table. Several queues may share an entry.
//!
//! The drivers ring the [`Doorbell`] for each request. A flag of the device could say that this is not needed at the
//! moment. But a driver that reads this flag needs a full fence before the read. Otherwise the device could stop
//! reading the queue at the same time, and miss the new request. The driver for disks rings without holding a lock.

use core::sync::atomic::{Ordering, compiler_fence};

use kernel_formats::capabilities::{Kind, Structure};
use kernel_virtio::{OpenError, Transport};

use super::memory_disk::MemoryDisk;
use crate::arch::x86_64::interrupts;
use crate::cpu::percpu::CpuId;
use crate::drivers::disk_error::{PciError, SetupError};
use crate::drivers::pci::{self, Function, Registers};

/// The types of devices (virtio 1.2, 5). The type of a device follows from its device id on the bus.
pub(super) const NETWORK: u16 = 1;
pub(super) const BLOCK: u16 = 2;
pub(super) const CONSOLE: u16 = 3;
pub(super) const ENTROPY: u16 = 4;

/// The vendor id of all virtio devices, and the device id of a device of type 0 (virtio 1.2, 4.1.2).
const VENDOR: u16 = 0x1af4;
const FIRST_DEVICE: u16 = 0x1040;
/// The device ids of devices that also have the interface from before virtio 1, with their types.
const TRANSITIONAL: [(u16, u16); 4] = [(0x1000, NETWORK), (0x1001, BLOCK), (0x1003, CONSOLE), (0x1005, ENTROPY)];

/// Offsets in the common configuration (virtio 1.2, 4.1.4.3), and its size.
const OFFERED_SELECT: usize = 0x00;
const OFFERED: usize = 0x04;
const ACCEPTED_SELECT: usize = 0x08;
const ACCEPTED: usize = 0x0c;
const CONFIGURATION_MSIX_VECTOR: usize = 0x10;
const STATUS: usize = 0x14;
const GENERATION: usize = 0x15;
const QUEUE_SELECT: usize = 0x16;
const QUEUE_SIZE: usize = 0x18;
const QUEUE_MSIX_VECTOR: usize = 0x1a;
const QUEUE_ENABLE: usize = 0x1c;
const QUEUE_NOTIFY_OFF: usize = 0x1e;
const QUEUE_ADDRESSES: usize = 0x20;
const COMMON_BYTES: usize = 0x38;

/// A virtio device on the PCI bus. Its queues interrupt by MSI-X messages.
pub(super) struct PciTransport {
    device: pci::Device,
    common: Registers,
    notify: (Structure, Registers),
    /// The configuration that depends on the type of the device, if it has one.
    configuration: Option<Registers>,
    /// The number of entries of the MSI-X table that are set for queues.
    messages: u16,
    /// The entry for changes of the configuration, if there is one.
    changes: Option<u16>,
}

/// How the driver notifies a device that a queue has new requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doorbell {
    /// The driver writes the number of the queue to this register.
    Register { register: Registers, queue: u16 },
    /// The driver calls the code that implements the device, which is a disk in memory.
    Memory { disk: &'static MemoryDisk, queue: u16 },
}

impl kernel_virtio::Doorbell for Doorbell {
    /// Makes the device read its queue. The caller has added requests to the queue before. If the device is a disk in
    /// memory, not callable from interrupt handlers. Otherwise callable from everywhere.
    fn ring(&self) {
        compiler_fence(Ordering::SeqCst);
        match *self {
            // SAFETY: the write makes the device read a queue whose descriptors contain only addresses of the DMA pool.
            // The device sees the writes to the queue that precede this write. The reason is that the compiler fence
            // keeps the writes in order, and that an x86 processor does not reorder stores.
            Self::Register { register, queue } => unsafe { register.write(0, queue) },
            Self::Memory { disk, queue } => disk.submit(queue),
        }
    }
}

/// Returns all devices of this type, in the order of their addresses.
pub(super) fn devices(wanted: u16) -> impl Iterator<Item = Function> {
    let is_wanted = move |device: u16| device == FIRST_DEVICE + wanted || TRANSITIONAL.contains(&(device, wanted));
    let all = pci::functions().iter();
    all.filter(move |&&(_, (vendor, device))| vendor == VENDOR && is_wanted(device)).map(|&(function, _)| function)
}

/// Opens the first device of this type. Its interrupts go to `cpu`, where they call `handler`.
///
/// # Errors
/// `SetupError::Missing` if there is no such device. Other errors if it cannot be used.
pub(super) fn open_first(
    wanted: u16,
    cpu: CpuId,
    name: &'static str,
    handler: fn(usize),
) -> Result<PciTransport, SetupError> {
    let function = devices(wanted).next().ok_or(SetupError::Missing)?;
    open(function, &[cpu], name, (handler, 0))
}

/// Opens a device. Its interrupts go to these CPUs, those of each queue to one of them, and call the function of
/// `handler` with the argument.
///
/// # Errors
/// If the device lacks something that the driver needs, or there is no interrupt vector for it.
pub(super) fn open(
    function: Function,
    cpus: &[CpuId],
    name: &'static str,
    handler: (fn(usize), usize),
) -> Result<PciTransport, SetupError> {
    let device = pci::Device::enable(function);
    let vector = interrupts::allocate(name, handler.0, handler.1).map_err(|_| SetupError::NoVector)?;
    let messages = device.route_messages(0, vector, cpus)?;
    let common = structure(&device, Kind::Common)?.1.part(0, COMMON_BYTES).ok_or(PciError::NoRegisters)?;
    let notify = structure(&device, Kind::Notify)?;
    let configuration = match structure(&device, Kind::Device) {
        Ok((_, registers)) => Some(registers),
        Err(SetupError::NotVirtio) => None,
        Err(error) => return Err(error),
    };
    Ok(PciTransport { device, common, notify, configuration, messages, changes: None })
}

/// Resets the device to which these registers belong, so that it stops using its queues.
///
/// Does not wait until the device confirms this, because an interrupt handler may call this function. Nothing depends
/// on the confirmation, because the memory of the queues is never freed.
pub(super) fn reset(transport_registers: Registers) {
    // SAFETY: the write passes no address to the device. It makes the device stop using its queues.
    unsafe { transport_registers.write::<u8>(STATUS, 0) };
}

/// Returns the structure of type `kind` that the device describes, and its registers.
fn structure(device: &pci::Device, kind: Kind) -> Result<(Structure, Registers), SetupError> {
    let structure = Structure::find(pci::configuration(device.function()), kind).ok_or(SetupError::NotVirtio)?;
    let bar = device.map(structure.bar)?;
    let range = structure.range(bar.bytes()).ok_or(PciError::NoRegisters)?;
    // `Structure::doorbell` checks the alignment of the doorbells.
    if kind != Kind::Notify && !range.start.is_multiple_of(size_of::<u32>()) {
        return Err(SetupError::NotVirtio);
    }
    Ok((structure, bar.range(range).ok_or(PciError::NoRegisters)?))
}

impl PciTransport {
    /// Returns the registers that [`reset`] writes to.
    pub(super) fn common(&self) -> Registers {
        self.common
    }

    /// Routes the interrupts of a queue, and returns its doorbell.
    ///
    /// # Errors
    /// If the device cannot use the MSI-X entry, or says that the doorbell is outside of its registers.
    pub(super) fn doorbell(&self, queue: u16) -> Result<Doorbell, SetupError> {
        if !self.route(queue) {
            return Err(SetupError::Refused);
        }
        let (notify, registers) = self.notify;
        let range = notify.doorbell(self.common.read(QUEUE_NOTIFY_OFF));
        let register = range.and_then(|range| registers.range(range)).ok_or(PciError::NoRegisters)?;
        Ok(Doorbell::Register { register, queue })
    }

    /// Routes the interrupt for changes of the configuration to `cpu`, where it calls `handler`. Does nothing if the MSI-X
    /// table has entries only for the queues. The device then does not announce changes.
    ///
    /// # Errors
    /// If there is no interrupt vector, or the entry of the MSI-X table cannot be set.
    pub(super) fn route_changes(
        &mut self,
        cpu: CpuId,
        name: &'static str,
        handler: fn(usize),
    ) -> Result<(), SetupError> {
        let vector = interrupts::allocate(name, handler, 0).map_err(|_| SetupError::NoVector)?;
        let set = self.device.route_messages(self.messages, vector, &[cpu])?;
        self.changes = (set != 0).then_some(self.messages);
        Ok(())
    }

    /// Returns the number of entries of the MSI-X table that are set for queues.
    pub(super) fn messages(&self) -> usize {
        self.messages.into()
    }

    /// Writes a register of the common configuration.
    fn write<T: Copy>(&self, offset: usize, value: T) {
        // SAFETY: the only addresses in these registers are those of queues. The drivers allocate queues and buffers in
        // the DMA pool.
        unsafe { self.common.write(offset, value) };
    }

    /// Selects a queue, and returns the value of a register that describes it.
    fn of_queue(&self, queue: u16, offset: usize) -> u16 {
        self.write(QUEUE_SELECT, queue);
        self.common.read(offset)
    }

    /// Selects a queue, and makes it interrupt by its entry of the MSI-X table. Returns whether the device can do that.
    /// The device forgets this when it is reset.
    fn route(&self, queue: u16) -> bool {
        let message = queue % self.messages;
        self.write(QUEUE_SELECT, queue);
        self.write(QUEUE_MSIX_VECTOR, message);
        // If the device cannot use the entry, it changes the register to another value.
        self.common.read::<u16>(QUEUE_MSIX_VECTOR) == message
    }
}

impl Transport for PciTransport {
    fn offered_features(&mut self) -> u64 {
        let half = |number: u32| {
            self.write(OFFERED_SELECT, number);
            u64::from(self.common.read::<u32>(OFFERED))
        };
        half(0) | half(1) << 32
    }

    fn accept_features(&mut self, features: u64) {
        for (number, half) in [(0u32, features as u32), (1, (features >> 32) as u32)] {
            self.write(ACCEPTED_SELECT, number);
            self.write(ACCEPTED, half);
        }
    }

    fn status(&self) -> u8 {
        self.common.read(STATUS)
    }

    fn set_status(&mut self, status: u8) {
        self.write(STATUS, status);
    }

    fn announce_changes(&mut self) {
        if let Some(message) = self.changes {
            self.write(CONFIGURATION_MSIX_VECTOR, message);
        }
    }

    fn generation(&self) -> u8 {
        self.common.read(GENERATION)
    }

    fn configuration(&self, offset: usize) -> Option<u32> {
        Some(self.configuration?.part(offset, size_of::<u32>())?.read(0))
    }

    fn queue_entries(&mut self, queue: u16) -> u16 {
        self.of_queue(queue, QUEUE_SIZE)
    }

    fn is_queue_set(&mut self, queue: u16) -> bool {
        self.of_queue(queue, QUEUE_ENABLE) != 0
    }

    fn set_queue(&mut self, queue: u16, entries: u16, addresses: [u64; 3]) {
        // `doorbell` has checked that the device can do this.
        self.route(queue);
        self.write(QUEUE_SIZE, entries);
        for (address, register) in addresses.into_iter().zip((QUEUE_ADDRESSES..).step_by(size_of::<u64>())) {
            self.write(register, address as u32);
            self.write(register + size_of::<u32>(), (address >> 32) as u32);
        }
        self.write(QUEUE_ENABLE, 1u16);
    }
}

impl From<OpenError> for SetupError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::OutOfMemory => Self::OutOfMemory,
            OpenError::NotSupported => Self::NotVirtio,
            OpenError::Refused => Self::Refused,
        }
    }
}
