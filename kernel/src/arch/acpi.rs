//! The firmware's tables (ACPI): CPUs, interrupt controllers, clocks, and how to turn the computer off.

use core::ptr::NonNull;
use core::slice;

use ::acpi::address::{AddressSpace, GenericAddress};
use ::acpi::fadt::Fadt;
use ::acpi::madt::{Madt, MadtEntry};
use ::acpi::{AcpiHandler, AcpiTables, HpetInfo, PhysicalMapping};
use kernel_formats::soft_off::{self, SleepTypes};
use spin::Once;
use x86_64::instructions::port::Port;

use crate::cpu::percpu::MAX_CPUS;
use crate::mm::{self, PAGE_SIZE, PHYSICAL_MAP_BYTES, PhysAddr, paging};

/// Most I/O APICs that are used.
pub(crate) const MAX_IO_APICS: usize = 8;
/// There are 16 interrupts on the ISA bus.
const ISA_INTERRUPTS: usize = 16;

/// In the flags of a CPU: the CPU can be used.
const CPU_ENABLED: u32 = 1;

static TABLES: Once<Tables> = Once::new();

/// The part of the tables that the kernel uses.
#[derive(Default, Debug)]
pub(crate) struct Tables {
    /// Ids of the local APICs of all usable CPUs, the boot CPU included.
    pub apic_ids: heapless::Vec<u32, MAX_CPUS>,
    /// The I/O APICs.
    pub io_apics: heapless::Vec<IoApic, MAX_IO_APICS>,
    /// ISA interrupts whose number, polarity or trigger differ from the bus's standard.
    overrides: heapless::Vec<(u8, Interrupt), ISA_INTERRUPTS>,
    /// Registers of the high precision event timer.
    pub hpet: Option<PhysAddr>,
    /// How the computer is turned off.
    power: Option<Power>,
}

/// How the computer is turned off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Power {
    types: SleepTypes,
    /// The ports of the registers PM1a and, if there is one, PM1b.
    control_a: u16,
    control_b: Option<u16>,
    /// If the firmware has to be asked to hand over these registers: the port, and the value to write.
    hand_over: Option<(u16, u8)>,
}

/// An I/O APIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IoApic {
    /// Where its registers are.
    pub address: PhysAddr,
    /// The number of its first input among all interrupts of the system.
    pub first_interrupt: u32,
}

/// Which level of the line is active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Polarity {
    /// The high level, or the rising edge.
    ActiveHigh,
    /// The low level, or the falling edge.
    ActiveLow,
}

/// Which part of a signal raises the interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trigger {
    /// The edge at its beginning.
    Edge,
    /// The level, as long as it is active.
    Level,
}

/// An interrupt of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interrupt {
    /// The number of the input, counted through all I/O APICs.
    pub number: u32,
    /// See [`Polarity`].
    pub polarity: Polarity,
    /// See [`Trigger`].
    pub trigger: Trigger,
}

impl Tables {
    /// The input at which an interrupt of the ISA bus arrives.
    pub(crate) fn isa_interrupt(&self, irq: u8) -> Interrupt {
        let standard = Interrupt { number: u32::from(irq), polarity: Polarity::ActiveHigh, trigger: Trigger::Edge };
        self.overrides.iter().find(|(source, _)| *source == irq).map_or(standard, |(_, interrupt)| *interrupt)
    }

    /// Adds a CPU. Some firmware lists a CPU twice: with an xAPIC and with an x2APIC.
    fn add_cpu(&mut self, apic_id: u32) {
        if !self.apic_ids.contains(&apic_id) {
            let _ = self.apic_ids.push(apic_id);
        }
    }

    /// Adds one entry of the MADT. Entries for which there is no room are ignored.
    fn add(&mut self, entry: &MadtEntry<'_>) {
        match entry {
            MadtEntry::LocalApic(cpu) if cpu.flags & CPU_ENABLED != 0 => {
                self.add_cpu(cpu.apic_id.into());
            }
            MadtEntry::LocalX2Apic(cpu) if cpu.flags & CPU_ENABLED != 0 => self.add_cpu(cpu.x2apic_id),
            MadtEntry::IoApic(io_apic) => {
                let address = PhysAddr::new(u64::from(io_apic.io_apic_address));
                let first_interrupt = io_apic.global_system_interrupt_base;
                let _ = self.io_apics.push(IoApic { address, first_interrupt });
            }
            MadtEntry::InterruptSourceOverride(source) => {
                // Polarity and trigger mode are two bits each. Zero means the default of the bus: for ISA active high,
                // edge-triggered (ACPI 6.5, table 5.26).
                let polarity = if source.flags & 0b11 == 0b11 { Polarity::ActiveLow } else { Polarity::ActiveHigh };
                let trigger = if source.flags & 0b1100 == 0b1100 { Trigger::Level } else { Trigger::Edge };
                let interrupt = Interrupt { number: source.global_system_interrupt, polarity, trigger };
                let _ = self.overrides.push((source.irq, interrupt));
            }
            _ => {}
        }
    }
}

/// Reads the tables. Without them the kernel uses one CPU, and no interrupts through an I/O APIC.
pub(crate) fn init(rsdp: Option<u64>) {
    TABLES.call_once(|| {
        read(rsdp).unwrap_or_else(|reason| {
            log::warn!("no ACPI tables ({reason}): one CPU, no console input");
            Tables::default()
        })
    });
}

/// The firmware's tables.
///
/// # Panics
/// If the tables have not been read yet.
pub(crate) fn tables() -> &'static Tables {
    TABLES.get().expect("the firmware's tables have been read")
}

fn read(rsdp: Option<u64>) -> Result<Tables, &'static str> {
    let rsdp = usize::try_from(rsdp.ok_or("the boot loader has found none")?).expect("64 bits");
    // SAFETY: the boot protocol has passed the address of the root pointer.
    let acpi = unsafe { AcpiTables::from_rsdp(PhysicalMemory, rsdp) }.map_err(|_| "their root is damaged")?;
    let madt = acpi.find_table::<Madt>().map_err(|_| "there is no MADT")?;
    let mut tables = Tables::default();
    for entry in madt.get().entries() {
        tables.add(&entry);
    }
    tables.power = read_power(&acpi);
    tables.hpet = HpetInfo::new(&acpi).ok().and_then(|hpet| PhysAddr::try_new(hpet.base_address as u64).ok());
    Ok(tables)
}

fn read_power(acpi: &AcpiTables<PhysicalMemory>) -> Option<Power> {
    let dsdt = acpi.dsdt().ok()?;
    // SAFETY: address and length are from the firmware's table.
    let code = unsafe { PhysicalMemory.map_physical_region::<u8>(dsdt.address, usize::try_from(dsdt.length).ok()?) };
    // SAFETY: mapped above, and never unmapped; nothing writes to the firmware's tables.
    let code = unsafe { slice::from_raw_parts(code.virtual_start().as_ptr(), code.region_length()) };
    let types = soft_off::find(code)?;
    let fadt = acpi.find_table::<Fadt>().ok()?;
    let port = |register: GenericAddress| {
        let is_port = register.address_space == AddressSpace::SystemIo && register.address != 0;
        u16::try_from(register.address).ok().filter(|_| is_port)
    };
    let control_b = fadt.get().pm1b_control_block().ok().flatten().and_then(port);
    let command = u16::try_from(fadt.get().smi_cmd_port).ok().filter(|&port| port != 0);
    Some(Power {
        types,
        control_a: port(fadt.get().pm1a_control_block().ok()?)?,
        control_b,
        hand_over: command.zip(Some(fadt.get().acpi_enable)),
    })
}

/// Turns the computer off. Returns if the tables do not describe how, or if it is still on after about a second. Callable from
/// everywhere.
pub(crate) fn power_off() {
    let Some(power) = TABLES.get().and_then(|tables| tables.power) else { return };
    let mut control_a = Port::<u16>::new(power.control_a);
    // SAFETY: the port of this register; reading it changes nothing.
    let content = unsafe { control_a.read() };
    if !soft_off::is_acpi_on(content)
        && let Some((port, value)) = power.hand_over
    {
        // SAFETY: the port and the value are from the firmware's table.
        unsafe { Port::<u8>::new(port).write(value) };
        // SAFETY: as above.
        wait_until(|| soft_off::is_acpi_on(unsafe { control_a.read() }));
    }
    // SAFETY: as above.
    let content = unsafe { control_a.read() };
    // SAFETY: this turns the computer off, as the caller asks.
    unsafe { control_a.write(soft_off::control(content, power.types.a)) };
    if let Some(port) = power.control_b {
        let mut control_b = Port::<u16>::new(port);
        // SAFETY: as for the first of the two registers.
        let content = unsafe { control_b.read() };
        // SAFETY: as above.
        unsafe { control_b.write(soft_off::control(content, power.types.b)) };
    }
    wait_until(|| false);
}

/// Waits until `done`, for about a second at most. It counts accesses to a port, which take about a microsecond each, so that
/// no clock is needed.
fn wait_until(mut done: impl FnMut() -> bool) {
    /// The port to which firmware writes its progress while it starts.
    const DELAY_PORT: u16 = 0x80;
    for _ in 0..1_000_000 {
        if done() {
            return;
        }
        // SAFETY: a write to this port has no effect.
        unsafe { Port::<u8>::new(DELAY_PORT).write(0) };
    }
}

/// How the `acpi` crate reaches physical memory.
#[derive(Clone, Debug)]
struct PhysicalMemory;

impl AcpiHandler for PhysicalMemory {
    unsafe fn map_physical_region<T>(&self, physical_address: usize, size: usize) -> PhysicalMapping<Self, T> {
        let size = size.max(size_of::<T>()).max(1);
        let is_in_map = (physical_address as u64).checked_add(size as u64).is_some_and(|end| end <= PHYSICAL_MAP_BYTES);
        // The trait has no error for this. If an address is wrong, none of the tables can be relied on.
        assert!(is_in_map, "the firmware says that a table of {size} bytes is at {physical_address:#x}");
        let physical = PhysAddr::new(physical_address as u64);
        let mapped = mm::physical_to_virtual(physical);
        let mut pages = (0..size).step_by(PAGE_SIZE).chain([size - 1]);
        let pointer = if pages.all(|offset| paging::translate(mapped + offset as u64).is_some()) {
            NonNull::new(mapped.as_mut_ptr()).expect("not null")
        } else {
            // In a region that the memory map does not list.
            paging::map_device(physical, size).expect("no memory to map the firmware's tables")
        };
        // SAFETY: `size` bytes are mapped there, and are never unmapped.
        unsafe { PhysicalMapping::new(physical_address, pointer.cast(), size, size, self.clone()) }
    }

    fn unmap_physical_region<T>(_region: &PhysicalMapping<Self, T>) {}
}
