//! Virtio over PCI (virtio 1.2, 4.1). This wraps the transport of the crate virtio-drivers, which does not support
//! interrupts.
//!
//! The wrapper assigns an entry of the device's MSI-X table to each queue.
//!
//! `Transport::notify` does nothing. The kernel's drivers ring the [`Doorbell`] for each request instead. A flag of the
//! device could say that this is not needed at the moment. But a driver that reads this flag needs a full fence before
//! the read. Otherwise the device could stop reading the queue at the same time, and miss the new request. The driver
//! for disks rings without holding a lock.

use core::mem::ManuallyDrop;
use core::sync::atomic::{Ordering, compiler_fence};

use kernel_formats::capabilities::{self, Kind, Malformed, Structure};
use virtio_drivers::transport::pci::bus::DeviceFunction;
use virtio_drivers::transport::pci::{PciTransport, virtio_device_type};
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{PhysAddr, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::hal::DmaPool;
use super::memory_disk::MemoryDisk;
use crate::drivers::disk_error::{PciError, SetupError};
use crate::drivers::pci::{self, Registers};

/// Offsets of four registers in the common configuration (virtio 1.2, 4.1.4.3), and the size of the common
/// configuration.
const DEVICE_STATUS: usize = 0x14;
const QUEUE_SELECT: usize = 0x16;
const QUEUE_MSIX_VECTOR: usize = 0x1a;
const QUEUE_NOTIFY_OFF: usize = 0x1e;
const COMMON_BYTES: usize = 0x38;

/// A virtio device on the PCI bus. Its queues interrupt by MSI-X messages.
pub(super) struct MessageTransport {
    // Never dropped. Dropping the transport of virtio-drivers resets the device, and waits without a limit until the
    // device confirms that.
    device: ManuallyDrop<PciTransport>,
    common: Registers,
    notify: (Structure, Registers),
    /// The number of entries of the MSI-X table that are set.
    messages: u16,
}

/// How the driver notifies a device that a queue has new requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doorbell {
    /// The driver writes the number of the queue to this register.
    Register { register: Registers, queue: u16 },
    /// The driver calls the code that implements the device, which is a disk in memory.
    Memory { disk: &'static MemoryDisk, queue: u16 },
}

impl Doorbell {
    /// Makes the device read its queue. The caller has added requests to the queue before. If the device is a disk in
    /// memory, not callable from interrupt handlers. Otherwise callable from everywhere.
    pub(super) fn ring(self) {
        compiler_fence(Ordering::SeqCst);
        match self {
            // SAFETY: the write makes the device read a queue whose descriptors contain only addresses of the DMA pool.
            // The device sees the writes to the queue that precede this write. The reason is that the compiler fence
            // keeps the writes in order, and that an x86 processor does not reorder stores.
            Self::Register { register, queue } => unsafe { register.write(0, queue) },
            Self::Memory { disk, queue } => disk.submit(queue),
        }
    }
}

/// Returns all devices of this type, in the order of their addresses.
pub(super) fn devices(wanted: DeviceType) -> impl Iterator<Item = DeviceFunction> {
    let all = pci::functions().iter();
    all.filter(move |(_, info)| virtio_device_type(info) == Some(wanted)).map(|&(function, _)| function)
}

/// Checks the list of the capabilities that a device reports. virtio-drivers follows this list without a limit, and
/// adds to the offsets without a check for overflow.
///
/// # Errors
/// If the capabilities form a cycle, or end outside of the configuration space.
pub(super) fn check(function: DeviceFunction) -> core::result::Result<(), SetupError> {
    capabilities::check(pci::configuration(function)).map_err(|malformed| match malformed {
        Malformed::Endless => PciError::NoRegisters.into(),
        Malformed::Outside => SetupError::NotVirtio,
    })
}

/// Opens a device. The caller has [checked](check) the device, and has set `messages` entries of its MSI-X table, at
/// least one.
pub(super) fn open(device: &pci::Device, messages: u16) -> core::result::Result<MessageTransport, SetupError> {
    let (_, common) = structure(device, Kind::Common)?;
    let common = common.part(0, COMMON_BYTES).ok_or(PciError::NoRegisters)?;
    // virtio-drivers uses these structures, and expects that they are mapped. It adds the offset and the length of a
    // structure without a check for overflow, and its errors would not say what is wrong with the structure.
    let notify = structure(device, Kind::Notify)?;
    structure(device, Kind::InterruptStatus)?;
    if Structure::find(pci::configuration(device.function()), Kind::Device).is_some() {
        structure(device, Kind::Device)?;
    }
    let device = PciTransport::new::<DmaPool, _>(&mut device.root(), device.function());
    let device = ManuallyDrop::new(device.map_err(|_| SetupError::NotVirtio)?);
    Ok(MessageTransport { device, common, notify, messages })
}

/// Resets the device to which these registers belong, so that it stops using its queues.
///
/// Does not wait until the device confirms this, because an interrupt handler may call this function. Nothing depends
/// on the confirmation, because the memory of the queues (see `queue`) is never freed.
pub(super) fn reset(transport_registers: Registers) {
    // SAFETY: the write passes no address to the device. It makes the device stop using its queues.
    unsafe { transport_registers.write::<u8>(DEVICE_STATUS, 0) };
}

/// Returns the structure of type `kind` that the device describes, and its registers.
fn structure(device: &pci::Device, kind: Kind) -> core::result::Result<(Structure, Registers), SetupError> {
    let structure = Structure::find(pci::configuration(device.function()), kind).ok_or(SetupError::NotVirtio)?;
    let bar = device.map(structure.bar)?;
    let range = structure.range(bar.bytes()).ok_or(PciError::NoRegisters)?;
    Ok((structure, bar.range(range).ok_or(PciError::NoRegisters)?))
}

fn select_queue(common: Registers, queue: u16) {
    // SAFETY: this write only selects which queue the other registers describe.
    unsafe { common.write(QUEUE_SELECT, queue) };
}

impl MessageTransport {
    /// Returns the registers that [`reset`] writes to.
    pub(super) fn common(&self) -> Registers {
        self.common
    }

    /// Returns the doorbell of a queue.
    ///
    /// # Errors
    /// If the device says that the doorbell is outside of its registers.
    pub(super) fn doorbell(&self, queue: u16) -> core::result::Result<Doorbell, SetupError> {
        let (notify, registers) = self.notify;
        select_queue(self.common, queue);
        let range = notify.doorbell(self.common.read(QUEUE_NOTIFY_OFF));
        let register = range.and_then(|range| registers.range(range)).ok_or(PciError::NoRegisters)?;
        Ok(Doorbell::Register { register, queue })
    }

    /// Returns the index of the MSI-X table's entry that a queue uses.
    fn message(&self, queue: u16) -> u16 {
        queue % self.messages
    }

    /// Whether the device interrupts through its MSI-X entry when it has completed requests of this queue.
    pub(super) fn is_routed(&self, queue: u16) -> bool {
        select_queue(self.common, queue);
        self.common.read::<u16>(QUEUE_MSIX_VECTOR) == self.message(queue)
    }
}

impl Transport for MessageTransport {
    fn read_device_features(&mut self) -> u64 {
        self.device.read_device_features()
    }

    fn queue_set(
        &mut self,
        queue: u16,
        size: u32,
        descriptors: PhysAddr,
        driver_area: PhysAddr,
        device_area: PhysAddr,
    ) {
        select_queue(self.common, queue);
        // SAFETY: the MSI-X entry raises an interrupt that has a handler. If the device cannot use the entry, it
        // changes the register to another value, which `is_routed` detects.
        unsafe { self.common.write(QUEUE_MSIX_VECTOR, self.message(queue)) };
        self.device.queue_set(queue, size, descriptors, driver_area, device_area);
    }

    fn notify(&mut self, _: u16) {}

    fn device_type(&self) -> DeviceType {
        self.device.device_type()
    }

    fn write_driver_features(&mut self, driver_features: u64) {
        self.device.write_driver_features(driver_features);
    }

    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.device.max_queue_size(queue)
    }

    fn get_status(&self) -> DeviceStatus {
        self.device.get_status()
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.device.set_status(status);
    }

    fn set_guest_page_size(&mut self, guest_page_size: u32) {
        self.device.set_guest_page_size(guest_page_size);
    }

    fn requires_legacy_layout(&self) -> bool {
        self.device.requires_legacy_layout()
    }

    fn queue_unset(&mut self, queue: u16) {
        self.device.queue_unset(queue);
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        self.device.queue_used(queue)
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        self.device.ack_interrupt()
    }

    fn read_config_generation(&self) -> u32 {
        self.device.read_config_generation()
    }

    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T> {
        self.device.read_config_space(offset)
    }

    fn write_config_space<T: IntoBytes + Immutable>(&mut self, offset: usize, value: T) -> Result<()> {
        self.device.write_config_space(offset, value)
    }
}
