//! The I/O APICs, which deliver the interrupts of devices on the board. For each interrupt the kernel chooses the CPU
//! and the vector.
//!
//! The kernel uses the I/O APICs only for the ISA bus, whose only interrupt in use is that of the serial port. PCI
//! devices send their interrupts directly to the local APICs, as messages.

use core::fmt;
use core::ptr::NonNull;

use kernel_formats::madt::{Polarity, Trigger};

use super::apic;
use super::interrupts::Vector;
use crate::arch::acpi;
use crate::cpu::percpu::CpuId;
use crate::cpu::sync::InterruptMutex;
use crate::mm::paging;

const REGISTER_BYTES: usize = 0x20;
/// The offset in memory of the select register. The select register holds the index of the register that is accessed
/// through the window register.
const SELECT: usize = 0x00;
/// The offset in memory of the window register, through which the selected register is read and written.
const WINDOW: usize = 0x10;
/// The index of the version register, which contains the number of entries.
const VERSION: u32 = 1;
/// The index of the first entry of the redirection table. Each entry has two registers.
const FIRST_ENTRY: u32 = 0x10;

/// The bit of an entry that makes the polarity active low.
const ACTIVE_LOW: u32 = 1 << 13;
/// The bit of an entry that makes the interrupt level-triggered.
const LEVEL: u32 = 1 << 15;
/// The bit of an entry that masks the interrupt.
const MASKED: u32 = 1 << 16;

/// The largest number of I/O APICs that the kernel uses.
const MAX_CONTROLLERS: usize = acpi::MAX_IO_APICS;

static CONTROLLERS: InterruptMutex<heapless::Vec<IoApic, MAX_CONTROLLERS>> = InterruptMutex::new(heapless::Vec::new());

/// One I/O APIC. Its inputs have consecutive interrupt numbers.
#[derive(Debug)]
struct IoApic {
    registers: NonNull<u8>,
    first_interrupt: u32,
    entries: u32,
}

// SAFETY: every CPU may access these device registers, at the same address, and the lock of `CONTROLLERS` serialises
// the accesses.
unsafe impl Send for IoApic {}

impl IoApic {
    fn select(&mut self, index: u32) {
        // SAFETY: `init` has mapped the registers of this controller, and `SELECT` is the offset of one of them.
        let register = unsafe { self.registers.byte_add(SELECT) };
        // SAFETY: this is the address of the select register. The write only selects another register.
        unsafe { register.cast().write_volatile(index) };
    }

    fn read(&mut self, index: u32) -> u32 {
        self.select(index);
        // SAFETY: `init` has mapped the registers of this controller, and `WINDOW` is the offset of one of them.
        let register = unsafe { self.registers.byte_add(WINDOW) };
        // SAFETY: this is the address of the window register. Reading it has no side effect.
        unsafe { register.cast().read_volatile() }
    }

    fn write(&mut self, index: u32, value: u32) {
        self.select(index);
        // SAFETY: `init` has mapped the registers of this controller, and `WINDOW` is the offset of one of them.
        let register = unsafe { self.registers.byte_add(WINDOW) };
        // SAFETY: this is the address of the window register. The callers write only valid entries.
        unsafe { register.cast().write_volatile(value) };
    }
}

/// The error that an interrupt cannot be routed. Either no I/O APIC has the interrupt, or no CPU's APIC id fits into an
/// entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoSuchInterrupt;

impl fmt::Display for NoSuchInterrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no I/O APIC can send this interrupt to a CPU")
    }
}

impl core::error::Error for NoSuchInterrupt {}

/// Maps the controllers that the firmware reports, and masks all their interrupts.
pub(crate) fn init() {
    let mut controllers = CONTROLLERS.lock();
    for io_apic in acpi::tables().io_apics.iter() {
        let Ok(registers) = paging::map_device(io_apic.address, REGISTER_BYTES) else {
            log::warn!("no memory to map the I/O APIC at {:#x}", io_apic.address);
            continue;
        };
        let mut controller = IoApic { registers, first_interrupt: io_apic.first_interrupt, entries: 0 };
        controller.entries = ((controller.read(VERSION) >> 16) & 0xff) + 1;
        for entry in 0..controller.entries {
            controller.write(FIRST_ENTRY + 2 * entry, MASKED);
        }
        // The push cannot fail, because `controllers` has the same capacity as the list of I/O APICs in the firmware's
        // tables.
        let _ = controllers.push(controller);
    }
}

/// Makes an I/O APIC deliver an interrupt of the ISA bus to a CPU, on `vector`. If the firmware's tables override the
/// number, polarity or trigger mode of the interrupt, the values in the tables are used. If the interrupts of devices
/// cannot reach `cpu`, another CPU gets the interrupt.
///
/// # Errors
/// If no I/O APIC has the interrupt, or if the interrupts of devices can reach no CPU.
pub(crate) fn route_isa(irq: u8, vector: Vector, cpu: CpuId) -> Result<(), NoSuchInterrupt> {
    let source = acpi::tables().isa_interrupt(irq);
    let apic_id = apic::device_target(cpu).ok_or(NoSuchInterrupt)?;
    let mut controllers = CONTROLLERS.lock();
    let (controller, entry) = controllers
        .iter_mut()
        .find_map(|controller| {
            let entry = source.number.checked_sub(controller.first_interrupt)?;
            (entry < controller.entries).then_some((controller, entry))
        })
        .ok_or(NoSuchInterrupt)?;
    let mut low = u32::from(vector.0);
    if source.polarity == Polarity::ActiveLow {
        low |= ACTIVE_LOW;
    }
    if source.trigger == Trigger::Level {
        low |= LEVEL;
    }
    // The destination must be written first, because the write of the low half unmasks the entry.
    controller.write(FIRST_ENTRY + 2 * entry + 1, u32::from(apic_id) << 24);
    controller.write(FIRST_ENTRY + 2 * entry, low);
    Ok(())
}
