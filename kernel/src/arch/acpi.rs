//! What the firmware's tables say about CPUs, interrupt controllers and clocks, and of how to turn the machine off.

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

/// Most I/O APICs that are noted.
pub(crate) const MAX_IO_APICS: usize = 8;
/// There are 16 interrupts on the ISA bus.
const ISA_INTERRUPTS: usize = 16;

/// In the flags of a CPU: it can be used.
const CPU_ENABLED: u32 = 1;

static TABLES: Once<Tables> = Once::new();

/// What is of use to the kernel.
#[derive(Default, Debug)]
pub(crate) struct Tables {
    /// Ids of the local APICs of all usable CPUs, the boot CPU included.
    pub apic_ids: heapless::Vec<u32, MAX_CPUS>,
    /// The I/O APICs.
    pub io_apics: heapless::Vec<IoApic, MAX_IO_APICS>,
    /// Where ISA interrupts differ from what the bus defines.
    overrides: heapless::Vec<(u8, Interrupt), ISA_INTERRUPTS>,
    /// Registers of the high precision event timer.
    pub hpet: Option<PhysAddr>,
    /// How the machine is turned off.
    power: Option<Power>,
}

/// How the machine is turned off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Power {
    types: SleepTypes,
    /// The ports of the registers PM1a and, if there is one, PM1b.
    control_a: u16,
    control_b: Option<u16>,
    /// The port and value by which the firmware is told to hand these registers over, if it has to be.
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

/// How a device signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Polarity {
    /// By a high level, or going high.
    ActiveHigh,
    /// By a low level, or going low.
    ActiveLow,
}

/// What of a signal counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trigger {
    /// Its beginning.
    Edge,
    /// As long as it lasts.
    Level,
}

/// An interrupt of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interrupt {
    /// The input of the I/O APICs, counted through all of them.
    pub number: u32,
    /// See [`Polarity`].
    pub polarity: Polarity,
    /// See [`Trigger`].
    pub trigger: Trigger,
}

impl Tables {
    /// Where an interrupt of the ISA bus arrives.
    pub(crate) fn isa_interrupt(&self, irq: u8) -> Interrupt {
        let standard = Interrupt { number: u32::from(irq), polarity: Polarity::ActiveHigh, trigger: Trigger::Edge };
        self.overrides.iter().find(|(source, _)| *source == irq).map_or(standard, |(_, interrupt)| *interrupt)
    }

    /// Notes a CPU, which some firmware lists twice: as one with an xAPIC and as one with an x2APIC.
    fn add_cpu(&mut self, apic_id: u32) {
        if !self.apic_ids.contains(&apic_id) {
            let _ = self.apic_ids.push(apic_id);
        }
    }

    /// Notes one entry of the MADT. What does not fit is left unused.
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
                // Two bits each; zero means as the bus has it, which for ISA is active high, edge (ACPI 6.5, table
                // 5.26).
                let polarity = if source.flags & 0b11 == 0b11 { Polarity::ActiveLow } else { Polarity::ActiveHigh };
                let trigger = if source.flags & 0b1100 == 0b1100 { Trigger::Level } else { Trigger::Edge };
                let interrupt = Interrupt { number: source.global_system_interrupt, polarity, trigger };
                let _ = self.overrides.push((source.irq, interrupt));
            }
            _ => {}
        }
    }
}

/// Reads the tables. Without them the machine has one CPU and no interrupts from the board.
pub(crate) fn init(rsdp: Option<u64>) {
    TABLES.call_once(|| {
        read(rsdp).unwrap_or_else(|reason| {
            log::warn!("no ACPI tables ({reason}): one CPU, no console input");
            Tables::default()
        })
    });
}

/// What the firmware's tables say.
///
/// # Panics
/// If it is called early in the boot.
pub(crate) fn tables() -> &'static Tables {
    TABLES.get().expect("the firmware's tables have been read")
}

fn read(rsdp: Option<u64>) -> Result<Tables, &'static str> {
    let rsdp = usize::try_from(rsdp.ok_or("the boot loader has found none")?).expect("64 bits");
    // SAFETY: the boot protocol says that the root pointer is there.
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
    // SAFETY: the firmware's table says that it is there, with this length.
    let code = unsafe { PhysicalMemory.map_physical_region::<u8>(dsdt.address, usize::try_from(dsdt.length).ok()?) };
    // SAFETY: mapped above, for good; nobody writes to the firmware's tables.
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

/// Turns the machine off. Returns if that is not known to be possible, or does not happen within about a second. Callable
/// from everywhere.
pub(crate) fn power_off() {
    let Some(power) = TABLES.get().and_then(|tables| tables.power) else { return };
    let mut control_a = Port::<u16>::new(power.control_a);
    // SAFETY: the port of this register; reading it changes nothing.
    let content = unsafe { control_a.read() };
    if !soft_off::is_acpi_on(content)
        && let Some((port, value)) = power.hand_over
    {
        // SAFETY: the port and the value that the firmware's table gives for this.
        unsafe { Port::<u8>::new(port).write(value) };
        // SAFETY: as above.
        wait_until(|| soft_off::is_acpi_on(unsafe { control_a.read() }));
    }
    // SAFETY: as above.
    let content = unsafe { control_a.read() };
    // SAFETY: this ends the machine, which is what the caller wants.
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

/// Waits about a second at most: no clock is needed, since an access to a port takes about a microsecond.
fn wait_until(mut done: impl FnMut() -> bool) {
    /// Where nothing is but the codes that firmware shows while it starts.
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
        // The trait has no way to say so. The firmware's tables are elsewhere than it says: nothing of them can be relied on.
        assert!(is_in_map, "the firmware says that a table of {size} bytes is at {physical_address:#x}");
        let physical = PhysAddr::new(physical_address as u64);
        let mapped = mm::physical_to_virtual(physical);
        let mut pages = (0..size).step_by(PAGE_SIZE).chain([size - 1]);
        let pointer = if pages.all(|offset| paging::translate(mapped + offset as u64).is_some()) {
            NonNull::new(mapped.as_mut_ptr()).expect("not null")
        } else {
            // In a region that the memory map does not name.
            paging::map_device(physical, size).expect("no memory to map the firmware's tables")
        };
        // SAFETY: `size` bytes are mapped there, for good.
        unsafe { PhysicalMapping::new(physical_address, pointer.cast(), size, size, self.clone()) }
    }

    fn unmap_physical_region<T>(_region: &PhysicalMapping<Self, T>) {}
}
