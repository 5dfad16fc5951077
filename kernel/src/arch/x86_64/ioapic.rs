//! The I/O APIC: which CPU gets the interrupt of a device on the board, and on which vector.
//!
//! Only interrupts of the ISA bus (the serial port) are routed here; PCI devices send messages to the local APICs directly.

use core::fmt;
use core::ptr::NonNull;

use super::apic;
use super::interrupts::Vector;
use crate::arch::acpi::{self, Polarity, Trigger};
use crate::cpu::percpu::CpuId;
use crate::cpu::sync::InterruptMutex;
use crate::mm::paging;

const REGISTER_BYTES: usize = 0x20;
/// Offset of the register that selects, and of the one through which the selected register is read and written.
const SELECT: usize = 0x00;
const WINDOW: usize = 0x10;
/// Registers.
const VERSION: u32 = 1;
const FIRST_ENTRY: u32 = 0x10;

/// In an entry.
const ACTIVE_LOW: u32 = 1 << 13;
const LEVEL: u32 = 1 << 15;
const MASKED: u32 = 1 << 16;

/// Most I/O APICs that are used.
const MAX_CONTROLLERS: usize = acpi::MAX_IO_APICS;

static CONTROLLERS: InterruptMutex<heapless::Vec<IoApic, MAX_CONTROLLERS>> = InterruptMutex::new(heapless::Vec::new());

/// One controller, which has consecutive interrupt numbers of the system.
#[derive(Debug)]
struct IoApic {
    registers: NonNull<u8>,
    first_interrupt: u32,
    entries: u32,
}

// SAFETY: device registers are the same for every CPU; the lock orders the accesses.
unsafe impl Send for IoApic {}

impl IoApic {
    fn select(&mut self, index: u32) {
        // SAFETY: a register of the mapped controller.
        let register = unsafe { self.registers.byte_add(SELECT) };
        // SAFETY: as above.
        unsafe { register.cast().write_volatile(index) };
    }

    fn read(&mut self, index: u32) -> u32 {
        self.select(index);
        // SAFETY: a register of the mapped controller.
        let register = unsafe { self.registers.byte_add(WINDOW) };
        // SAFETY: as above.
        unsafe { register.cast().read_volatile() }
    }

    fn write(&mut self, index: u32, value: u32) {
        self.select(index);
        // SAFETY: a register of the mapped controller.
        let register = unsafe { self.registers.byte_add(WINDOW) };
        // SAFETY: as above.
        unsafe { register.cast().write_volatile(value) };
    }
}

/// No I/O APIC has this interrupt, the CPU is not up, or its APIC id does not fit into an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoSuchInterrupt;

impl fmt::Display for NoSuchInterrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no I/O APIC has this interrupt")
    }
}

impl core::error::Error for NoSuchInterrupt {}

/// Maps the controllers that the firmware reports and masks everything.
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
        // There is room: both lists have the same capacity.
        let _ = controllers.push(controller);
    }
}

/// Delivers an interrupt of the ISA bus on `vector` to a CPU, honouring the firmware's overrides.
///
/// # Errors
/// If there is no such interrupt.
pub(crate) fn route_isa(irq: u8, vector: Vector, cpu: CpuId) -> Result<(), NoSuchInterrupt> {
    let source = acpi::tables().isa_interrupt(irq);
    // An entry has eight bits for the destination.
    let apic_id = apic::id_of(cpu).and_then(|id| u8::try_from(id).ok()).ok_or(NoSuchInterrupt)?;
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
    // The destination is written first, since the write of the low half unmasks the entry.
    controller.write(FIRST_ENTRY + 2 * entry + 1, u32::from(apic_id) << 24);
    controller.write(FIRST_ENTRY + 2 * entry, low);
    Ok(())
}
