//! PCI: the devices on the bus, their registers and their interrupts.
//!
//! Configuration space is accessed through the ports 0xCF8 and 0xCFC, which every PC has (PCI Local Bus 3.0,
//! 3.2.2.3.2). The registers that a BAR describes stay at the address that the firmware has assigned.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use kernel_formats::bars::{Bar, Bars, ConfigurationSpace};
use kernel_formats::capabilities::{self, MessageTable};
use spin::Once;
use x86_64::instructions::port::Port;

use crate::arch::x86_64::apic;
use crate::arch::x86_64::interrupts::Vector;
use crate::cpu::percpu::CpuId;
use crate::cpu::sync::InterruptMutex;
use crate::drivers::disk_error::PciError;
use crate::mm::{PhysAddr, paging};

/// The two ports of configuration space. The first selects a register, and the second reads or writes that register.
static PORTS: InterruptMutex<(Port<u32>, Port<u32>)> = InterruptMutex::new((Port::new(0xcf8), Port::new(0xcfc)));
/// The bit of the first port that makes accesses to the second port go to configuration space.
const ENABLE: u32 = 1 << 31;

/// The bit of the first 32-bit word of the MSI-X capability that enables MSI-X. The upper half of this word is the
/// control word.
const MSIX_ENABLE: u32 = 1 << 31;
/// The bit of the first 32-bit word of the MSI-X capability that masks all vectors of the device.
const MSIX_MASK_ALL: u32 = 1 << 30;
/// The address to which a device writes to interrupt a CPU. Bits 12 to 19 are the APIC id of that CPU (SDM 11.11.1).
const MESSAGE_ADDRESS: u32 = 0xfee0_0000;

/// How many words of configuration space were read, and how many were written.
static READS: AtomicU32 = AtomicU32::new(0);
static WRITES: AtomicU32 = AtomicU32::new(0);

/// Returns how many words of configuration space were read, and how many were written. Tests use this.
pub(crate) fn configuration_accesses() -> (u32, u32) {
    (READS.load(Ordering::Relaxed), WRITES.load(Ordering::Relaxed))
}

/// The bits of the command register that make a device answer accesses to its memory, make it access memory itself, and
/// turn off its interrupt pin.
const COMMANDS: u16 = 1 << 1 | 1 << 2 | 1 << 10;

/// The address of a function of a device on the bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    bus: u8,
    device: u8,
    function: u8,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.bus, self.device, self.function)
    }
}

/// The configuration space of a device. It is accessed by ports.
#[derive(Clone, Copy, Debug)]
struct Space(Function);

impl Space {
    /// Calls `access` with the port that reads and writes the register at `offset`.
    fn with_register<R>(self, offset: u8, access: impl FnOnce(&mut Port<u32>) -> R) -> R {
        let Self(Function { bus, device, function }) = self;
        let function = u32::from(bus) << 16 | u32::from(device) << 11 | u32::from(function) << 8;
        let (address, data) = &mut *PORTS.lock();
        // SAFETY: a write to this port only selects a register.
        unsafe { address.write(ENABLE | function | u32::from(offset & !0b11)) };
        access(data)
    }
}

impl ConfigurationSpace for Space {
    fn read(&self, offset: u8) -> u32 {
        READS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: reading configuration space has no effect on memory safety.
        self.with_register(offset, |data| unsafe { data.read() })
    }

    fn write(&mut self, offset: u8, word: u32) {
        WRITES.fetch_add(1, Ordering::Relaxed);
        // SAFETY: a write can affect memory only by making a device access memory. The users of this module pass to
        // devices only addresses of the DMA pool and of local APICs.
        self.with_register(offset, |data| unsafe { data.write(word) });
    }
}

/// Returns all functions of all devices, each with its vendor id and its device id, bus by bus. On each bus the
/// functions are in the order of their addresses.
///
/// The first call tries all 256 buses. Following the bridges from bus 0 is not enough, because a computer may have more
/// than one root bus. The numbers of the root buses are only in the firmware's byte code (AML), which the kernel does
/// not interpret. Each read takes a virtual machine about a microsecond. So the other functions of a device are tried
/// only if it has a function 0, as every device has.
pub(crate) fn functions() -> &'static [(Function, (u16, u16))] {
    /// The number of devices that a bus can have, and the number of functions of a device.
    const DEVICES: u8 = 32;
    const FUNCTIONS: u8 = 8;
    /// The first word of the configuration space of a function that does not exist.
    const ABSENT: u32 = u32::MAX;
    static FOUND: Once<Vec<(Function, (u16, u16))>> = Once::new();
    FOUND.call_once(|| {
        let mut found = Vec::new();
        for (bus, device) in (0..=u8::MAX).flat_map(|bus| (0..DEVICES).map(move |device| (bus, device))) {
            for function in 0..FUNCTIONS {
                let function = Function { bus, device, function };
                match Space(function).read(0) {
                    ABSENT if function.function == 0 => break,
                    ABSENT => {}
                    word => found.push((function, (word as u16, (word >> 16) as u16))),
                }
            }
        }
        found
    })
}

/// Returns a function that reads words of a device's configuration space.
pub(crate) fn configuration(function: Function) -> impl Fn(u8) -> u32 {
    move |register| Space(function).read(register)
}

/// A range of mapped registers of a device. The mapping is permanent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    physical: PhysAddr,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is permanent, and every CPU may access it. The drivers order their accesses to the registers.
unsafe impl Send for Registers {}
// SAFETY: the mapping is permanent, and every CPU may access it. The drivers order their accesses to the registers.
unsafe impl Sync for Registers {}

impl Registers {
    /// Returns the address of the first register.
    pub(crate) fn start(self) -> NonNull<u8> {
        self.start
    }

    /// Returns the number of bytes of the range.
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns the `bytes` bytes of registers that begin at `offset`, or `None` if they are not inside of this range.
    pub(crate) fn part(self, offset: usize, bytes: usize) -> Option<Self> {
        self.range(capabilities::part(self.bytes, offset, bytes)?)
    }

    /// Returns the registers at the offsets in `range`, or `None` if they are not inside of this range.
    pub(crate) fn range(self, range: Range<usize>) -> Option<Self> {
        (range.start <= range.end && range.end <= self.bytes).then(|| Self {
            physical: self.physical + range.start as u64,
            // SAFETY: the condition above ensures that the result is within the mapping.
            start: unsafe { self.start.add(range.start) },
            bytes: range.len(),
        })
    }

    fn at<T>(self, offset: usize) -> *mut T {
        let register = self.part(offset, size_of::<T>()).expect("the register is inside the mapping");
        let pointer = register.start.as_ptr().cast::<T>();
        assert!(pointer.is_aligned(), "registers are aligned to their size");
        pointer
    }

    /// Reads the register at `offset`.
    ///
    /// # Panics
    /// If the register is outside of the range, or is not aligned.
    pub(crate) fn read<T: Copy>(self, offset: usize) -> T {
        // SAFETY: `at` has checked that the register is mapped and aligned. Every bit pattern is a valid `T`, because
        // `T` is an integer in all calls. Reading a register has no effect on memory safety.
        unsafe { self.at::<T>(offset).read_volatile() }
    }

    /// Writes the register at `offset`.
    ///
    /// # Safety
    /// If the write passes an address to the device, this must be an address in the DMA pool or the address of a local
    /// APIC.
    ///
    /// # Panics
    /// If the register is outside of the range, or is not aligned.
    pub(crate) unsafe fn write<T: Copy>(self, offset: usize, value: T) {
        // SAFETY: `at` has checked that the register is mapped and aligned. The caller promises that the write passes
        // only permitted addresses to the device.
        unsafe { self.at::<T>(offset).write_volatile(value) }
    }
}

/// The largest number of BARs that can be mapped. A virtio device has two, so this is enough for 32 virtio devices.
const MAX_MAPPED: usize = 64;

/// The BARs that have been mapped.
static MAPPED: InterruptMutex<heapless::Vec<Registers, MAX_MAPPED>> = InterruptMutex::new(heapless::Vec::new());

/// Returns the registers of `bytes` bytes at a physical address, if they have been mapped.
fn mapped(physical: PhysAddr, bytes: usize) -> Option<Registers> {
    MAPPED.lock().iter().find_map(|bar| {
        let offset = physical.as_u64().checked_sub(bar.physical.as_u64())?;
        bar.part(usize::try_from(offset).ok()?, bytes)
    })
}

/// A device that is enabled: it answers accesses to its registers, may access memory, and does not use its interrupt
/// pin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    function: Function,
    bars: Bars,
}

impl Device {
    /// Enables a device, and finds out where its registers are. Called once for each device, before anything accesses
    /// its registers. Under QEMU this takes milliseconds, because the memory map of every CPU is rebuilt.
    pub(crate) fn enable(function: Function) -> Self {
        Self { function, bars: Bars::size(&mut Space(function), COMMANDS) }
    }

    /// Returns the address of the device on the bus.
    pub(crate) fn function(&self) -> Function {
        self.function
    }

    /// Maps a BAR. If the BAR is mapped already, returns the existing mapping.
    ///
    /// # Errors
    /// If the device has no such BAR, or if the BAR describes I/O ports or has no valid address. Also if the BAR cannot
    /// be mapped, because memory is exhausted or too many BARs have been mapped.
    pub(crate) fn map(&self, number: u8) -> Result<Registers, PciError> {
        let (address, bytes) = match self.bars.get(number) {
            Bar::Missing | Bar::Memory { address: 0, .. } => return Err(PciError::NoRegisters),
            Bar::Ports => return Err(PciError::Ports),
            Bar::Memory { address, bytes } => (address, bytes),
        };
        let physical = PhysAddr::try_new(address).map_err(|_| PciError::NoRegisters)?;
        let bytes = usize::try_from(bytes).map_err(|_| PciError::NoRegisters)?;
        if let Some(known) = mapped(physical, bytes) {
            return Ok(known);
        }
        // This check comes first, because a mapping that is not recorded would be lost.
        if MAPPED.lock().is_full() {
            return Err(PciError::TooManyDevices);
        }
        let registers = Registers { physical, start: paging::map_device(physical, bytes)?, bytes };
        MAPPED.lock().push(registers).map_err(|_| PciError::TooManyDevices)?;
        Ok(registers)
    }

    /// Sets the entries of the device's MSI-X table from `first` on, one for each of `cpus`. An entry makes the device raise
    /// the interrupt `vector` on the entry's CPU, with fixed delivery and edge trigger. If the messages of devices cannot
    /// reach this CPU, another CPU gets the interrupt. Returns the number of entries that were set. If there are more
    /// `cpus` than entries, all further entries of the table are set.
    ///
    /// # Errors
    /// If the device has no MSI-X table, or if the table is not in the device's memory BARs or cannot be mapped. Also
    /// if the device's interrupt messages cannot reach any CPU.
    pub(crate) fn route_messages(&self, first: u16, vector: Vector, cpus: &[CpuId]) -> Result<u16, PciError> {
        let read = configuration(self.function);
        let table = MessageTable::find(&read).ok_or(PciError::NoMessages)?;
        let bar = self.map(table.bar)?;
        let mut set = 0;
        for (&cpu, number) in cpus.iter().zip(first..table.entries) {
            let apic_id = u32::from(apic::device_target(cpu).ok_or(PciError::NoSuchCpu)?);
            let entry =
                table.entry(number, bar.bytes).and_then(|range| bar.range(range)).ok_or(PciError::NoRegisters)?;
            // The four words of the entry: lower half of the address, upper half, data, and control (bit 0 masks the
            // entry).
            for (offset, word) in [(0, MESSAGE_ADDRESS | apic_id << 12), (4, 0), (8, u32::from(vector.0)), (12, 0)] {
                // SAFETY: the address is that of the local APIC of a CPU that is up. So a write of the device to this
                // address only raises an interrupt, and the vector of that interrupt has a handler.
                unsafe { entry.write(offset, word) };
            }
            set += 1;
        }
        let control = read(table.control);
        Space(self.function).write(table.control, control & !MSIX_MASK_ALL | MSIX_ENABLE);
        Ok(set)
    }
}
