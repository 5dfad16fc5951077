//! The firmware's ACPI tables. They describe the CPUs, the interrupt controllers, the clocks, and how to turn the
//! computer off.

use core::ptr::NonNull;
use core::slice;

use ::acpi::address::{AddressSpace, GenericAddress};
use ::acpi::fadt::Fadt;
use ::acpi::madt::Madt;
use ::acpi::{AcpiHandler, AcpiTables, HpetInfo, PhysicalMapping};
use kernel_formats::madt::{self, Entry, Interrupt};
use kernel_formats::soft_off::{self, SleepTypes};
use spin::Once;
use x86_64::instructions::port::Port;

use crate::cpu::percpu::MAX_CPUS;
use crate::mm::{self, PAGE_SIZE, PHYSICAL_MAP_BYTES, PhysAddr, paging};

/// The largest number of I/O APICs that the kernel uses.
pub(crate) const MAX_IO_APICS: usize = 8;
/// The number of interrupts on the ISA bus.
const ISA_INTERRUPTS: usize = 16;

static TABLES: Once<Tables> = Once::new();

/// What the kernel uses of the firmware's tables.
#[derive(Default, Debug)]
pub(crate) struct Tables {
    /// The ids of the local APICs of the usable CPUs. If the firmware lists more CPUs than the kernel can use, the CPUs
    /// at the end of the firmware's list are missing here. The boot CPU may be one of them.
    pub apic_ids: heapless::Vec<u32, MAX_CPUS>,
    /// The number of CPUs for which `apic_ids` has no room.
    pub ignored_cpus: usize,
    /// The I/O APICs that the firmware lists.
    pub io_apics: heapless::Vec<IoApic, MAX_IO_APICS>,
    /// The ISA interrupts for which the firmware overrides the defaults of the ISA bus. Each pair consists of the
    /// interrupt's number on that bus, and the I/O APIC input with its polarity and trigger mode.
    overrides: heapless::Vec<(u8, Interrupt), ISA_INTERRUPTS>,
    /// The address of the registers of the HPET (high precision event timer), if there is one.
    pub hpet: Option<PhysAddr>,
    /// The port of the power management timer, if there is one.
    pub pm_timer: Option<u16>,
    /// How to turn the computer off, if the tables describe it.
    power: Option<Power>,
}

/// How to turn the computer off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Power {
    types: SleepTypes,
    /// The port of control register PM1a.
    control_a: u16,
    /// The port of control register PM1b, if the computer has that register.
    control_b: Option<u16>,
    /// The port to which the kernel writes in order to enable ACPI, and the value that it writes. Afterwards the
    /// firmware no longer uses the control registers. `None` if ACPI is always enabled.
    hand_over: Option<(u16, u8)>,
}

/// An I/O APIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IoApic {
    /// The physical address of the I/O APIC's registers.
    pub address: PhysAddr,
    /// The number of the first input of this I/O APIC. Inputs have consecutive numbers across all I/O APICs (ACPI:
    /// global system interrupts).
    pub first_interrupt: u32,
}

impl Tables {
    /// Returns the I/O APIC input that an interrupt of the ISA bus uses, with the polarity and the trigger mode of that
    /// interrupt.
    pub(crate) fn isa_interrupt(&self, irq: u8) -> Interrupt {
        let overridden = self.overrides.iter().find(|(source, _)| *source == irq);
        overridden.map_or(Interrupt::of_isa_bus(irq), |&(_, interrupt)| interrupt)
    }

    /// Adds a CPU to `apic_ids`, unless the list contains that CPU already. Some firmware lists a CPU twice, once in
    /// the format for xAPIC ids and once in the format for x2APIC ids.
    fn add_cpu(&mut self, apic_id: u32) {
        if !self.apic_ids.contains(&apic_id) && self.apic_ids.push(apic_id).is_err() {
            self.ignored_cpus += 1;
        }
    }

    /// Adds one entry of the MADT. An entry for an I/O APIC is ignored if the list `io_apics` is full. An entry for an
    /// override is ignored if the list `overrides` is full.
    fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Cpu { apic_id } => self.add_cpu(apic_id),
            Entry::IoApic { address, first_interrupt } => {
                let io_apic = IoApic { address: PhysAddr::new(address.into()), first_interrupt };
                if self.io_apics.push(io_apic).is_err() {
                    log::warn!("the I/O APIC at {address:#x} is not used: the kernel uses at most {MAX_IO_APICS}");
                }
            }
            Entry::SourceOverride { irq, interrupt } => {
                if self.overrides.push((irq, interrupt)).is_err() {
                    log::warn!("the firmware describes interrupt {irq} of the ISA bus more than once: {interrupt:?}");
                }
            }
        }
    }
}

/// Reads the tables. If there are none, or if they are damaged, the kernel uses only the boot CPU and no I/O APIC.
pub(crate) fn init(rsdp: Option<u64>) {
    TABLES.call_once(|| {
        read(rsdp).unwrap_or_else(|reason| {
            log::warn!("no ACPI tables ({reason}): one CPU, no console input");
            Tables::default()
        })
    });
}

/// Returns the firmware's tables.
///
/// # Panics
/// If the tables have not been read yet.
pub(crate) fn tables() -> &'static Tables {
    TABLES.get().expect("the firmware's tables have been read")
}

fn read(rsdp: Option<u64>) -> Result<Tables, &'static str> {
    let rsdp = usize::try_from(rsdp.ok_or("the boot loader has found none")?).expect("64 bits");
    // SAFETY: the boot protocol promises that this is the physical address of the root pointer (RSDP).
    let acpi = unsafe { AcpiTables::from_rsdp(PhysicalMemory, rsdp) }.map_err(|_| "their root is damaged")?;
    let madt = acpi.find_table::<Madt>().map_err(|_| "there is no MADT")?;
    // SAFETY: the mapping covers the whole table, and is never unmapped. Nothing writes to the firmware's tables.
    let madt = unsafe { slice::from_raw_parts(madt.virtual_start().as_ptr().cast::<u8>(), madt.region_length()) };
    let mut tables = Tables::default();
    for entry in madt::entries(madt) {
        match entry {
            Ok(entry) => tables.add(entry),
            Err(malformed) => log::warn!("{malformed}: CPUs and I/O APICs behind it are not used"),
        }
    }
    tables.power = read_power(&acpi);
    tables.hpet = HpetInfo::new(&acpi).ok().and_then(|hpet| PhysAddr::try_new(hpet.base_address as u64).ok());
    let fadt = acpi.find_table::<Fadt>().ok();
    tables.pm_timer = fadt.and_then(|fadt| fadt.pm_timer_block().ok().flatten()).and_then(port);
    Ok(tables)
}

fn read_power(acpi: &AcpiTables<PhysicalMemory>) -> Option<Power> {
    let dsdt = acpi.dsdt().ok()?;
    // SAFETY: the firmware's tables promise that a DSDT of this length is at this address.
    let code = unsafe { PhysicalMemory.map_physical_region::<u8>(dsdt.address, usize::try_from(dsdt.length).ok()?) };
    // SAFETY: the memory was mapped above and is never unmapped, and nothing writes to the firmware's tables.
    let code = unsafe { slice::from_raw_parts(code.virtual_start().as_ptr(), code.region_length()) };
    let types = soft_off::find(code)?;
    let fadt = acpi.find_table::<Fadt>().ok()?;
    let control_b = fadt.get().pm1b_control_block().ok().flatten().and_then(port);
    let command = u16::try_from(fadt.get().smi_cmd_port).ok().filter(|&port| port != 0);
    Some(Power {
        types,
        control_a: port(fadt.get().pm1a_control_block().ok()?)?,
        control_b,
        hand_over: command.zip(Some(fadt.get().acpi_enable)),
    })
}

/// Returns the I/O port of a register, or `None` if the register is in memory or does not exist.
fn port(register: GenericAddress) -> Option<u16> {
    let is_port = register.address_space == AddressSpace::SystemIo && register.address != 0;
    u16::try_from(register.address).ok().filter(|_| is_port)
}

/// Turns the computer off. Returns if the tables do not describe how to do so, or if the computer is still on about a
/// second after the writes that should turn it off. Callable from everywhere.
pub(crate) fn power_off() {
    let Some(power) = TABLES.get().and_then(|tables| tables.power) else { return };
    let mut control_a = Port::<u16>::new(power.control_a);
    // SAFETY: the firmware's table says that this is the port of control register PM1a. Reading that register has no
    // side effect.
    let content = unsafe { control_a.read() };
    if !soft_off::is_acpi_on(content)
        && let Some((port, value)) = power.hand_over
    {
        // SAFETY: the firmware's table says that writing this value to this port makes the firmware hand the control
        // registers over to the kernel.
        unsafe { Port::<u8>::new(port).write(value) };
        // SAFETY: this is the port of control register PM1a. Reading that register has no side effect.
        wait_until(|| soft_off::is_acpi_on(unsafe { control_a.read() }));
    }
    // SAFETY: this is the port of control register PM1a. Reading that register has no side effect.
    let content = unsafe { control_a.read() };
    // SAFETY: the only effect of this write is to turn the computer off, which is the purpose of this function.
    unsafe { control_a.write(soft_off::control(content, power.types.a)) };
    if let Some(port) = power.control_b {
        let mut control_b = Port::<u16>::new(port);
        // SAFETY: the firmware's table says that this is the port of control register PM1b. Reading that register has
        // no side effect.
        let content = unsafe { control_b.read() };
        // SAFETY: the only effect of this write is to turn the computer off.
        unsafe { control_b.write(soft_off::control(content, power.types.b)) };
    }
    wait_until(|| false);
}

/// Waits until `done` returns true, but at most about a second. Needs no clock, because it counts writes to a port, and
/// each write takes about a microsecond.
fn wait_until(mut done: impl FnMut() -> bool) {
    /// The port to which firmware writes its progress codes while it starts. The kernel writes to this port only
    /// because each write takes about a microsecond.
    const DELAY_PORT: u16 = 0x80;
    for _ in 0..1_000_000 {
        if done() {
            return;
        }
        // SAFETY: a write to this port has no effect.
        unsafe { Port::<u8>::new(DELAY_PORT).write(0) };
    }
}

/// The methods by which the `acpi` crate accesses physical memory.
#[derive(Clone, Debug)]
struct PhysicalMemory;

impl AcpiHandler for PhysicalMemory {
    unsafe fn map_physical_region<T>(&self, physical_address: usize, size: usize) -> PhysicalMapping<Self, T> {
        let size = size.max(size_of::<T>()).max(1);
        let is_in_map = (physical_address as u64).checked_add(size as u64).is_some_and(|end| end <= PHYSICAL_MAP_BYTES);
        // This method panics if the address is wrong. It cannot return an error, and if one address is wrong, no table
        // can be relied on.
        assert!(is_in_map, "the firmware says that a table of {size} bytes is at {physical_address:#x}");
        let physical = PhysAddr::new(physical_address as u64);
        let mapped = mm::physical_to_virtual(physical);
        let mut pages = (0..size).step_by(PAGE_SIZE).chain([size - 1]);
        let pointer = if pages.all(|offset| paging::translate(mapped + offset as u64).is_some()) {
            NonNull::new(mapped.as_mut_ptr()).expect("not null")
        } else {
            // The table is in a region that the memory map does not list, so physical memory is not mapped there yet.
            paging::map_device(physical, size).expect("no memory to map the firmware's tables")
        };
        // SAFETY: `size` bytes are mapped at `pointer`, and are never unmapped.
        unsafe { PhysicalMapping::new(physical_address, pointer.cast(), size, size, self.clone()) }
    }

    fn unmap_physical_region<T>(_region: &PhysicalMapping<Self, T>) {}
}
