//! The firmware's ACPI tables. They describe the CPUs, the interrupt controllers, the clocks, and how to turn the
//! computer off.

use core::fmt;
use core::ptr::NonNull;
use core::slice;

use kernel_formats::acpi::{self, Fadt, PhysicalMemory, Signature, TableError};
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
    /// at the end of the firmware's list are missing here. The boot CPU may be one of the missing CPUs.
    pub apic_ids: heapless::Vec<u32, MAX_CPUS>,
    /// The number of entries of the firmware's list of CPUs for which `apic_ids` has no room. A CPU that the firmware
    /// lists twice counts twice.
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

    /// Adds a CPU to `apic_ids`, unless the list contains that CPU already. If the list is full, counts the CPU in
    /// `ignored_cpus` instead. Some firmware lists a CPU twice, once in the format for xAPIC ids and once in the format
    /// for x2APIC ids.
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
                    log::warn!("the firmware overrides too many ISA interrupts; {irq} is left out: {interrupt:?}");
                }
            }
        }
    }
}

/// Reads the tables. If there are none, if their root is damaged, or if they contain no MADT, the kernel uses only the
/// boot CPU and no I/O APIC.
pub(crate) fn init(root_pointer: Option<u64>) {
    TABLES.call_once(|| match root_pointer {
        Some(address) => read(address).unwrap_or_else(|error| without_tables(&error)),
        None => without_tables(&"the boot loader has found none"),
    });
}

fn without_tables(reason: &dyn fmt::Display) -> Tables {
    log::warn!("no ACPI tables ({reason}): one CPU, no console input");
    Tables::default()
}

/// Returns the firmware's tables.
///
/// # Panics
/// If the tables have not been read yet.
pub(crate) fn tables() -> &'static Tables {
    TABLES.get().expect("the firmware's tables have been read")
}

/// Reads the tables, which the root pointer at the physical address `root_pointer` leads to.
fn read(root_pointer: u64) -> Result<Tables, TableError> {
    let firmware = acpi::Tables::find(&FirmwareMemory, root_pointer)?;
    let mut tables = Tables::default();
    for entry in madt::entries(firmware.table(Signature::MADT)?) {
        match entry {
            Ok(entry) => tables.add(entry),
            Err(malformed) => log::warn!("{malformed}: CPUs and I/O APICs behind it are not used"),
        }
    }
    match firmware.table(Signature::FADT).map(Fadt::read) {
        Ok(fadt) => {
            tables.pm_timer = fadt.pm_timer;
            tables.power = read_power(&firmware, &fadt);
        }
        Err(error) => log::warn!("{error}: no ACPI timer, and the computer cannot be turned off"),
    }
    tables.hpet = match firmware.table(Signature::HPET).map(acpi::hpet) {
        Ok(address) => address.and_then(|address| PhysAddr::try_new(address).ok()),
        // Not every computer has an HPET.
        Err(TableError::Missing(_)) => None,
        Err(error) => {
            log::warn!("{error}: the HPET is not used");
            None
        }
    };
    Ok(tables)
}

fn read_power(firmware: &acpi::Tables<'_, FirmwareMemory>, fadt: &Fadt) -> Option<Power> {
    let code = firmware.byte_code(fadt).inspect_err(|error| log::warn!("{error}: the computer cannot be turned off"));
    let types = soft_off::find(code.ok()?)?;
    Some(Power { types, control_a: fadt.control_a?, control_b: fadt.control_b, hand_over: fadt.hand_over })
}

/// Turns the computer off. Returns if the tables do not describe how to do so, or if the writes that should turn the
/// computer off have had no effect after about a second. Callable from everywhere.
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

/// The memory in which the firmware's tables are.
#[derive(Debug)]
struct FirmwareMemory;

impl PhysicalMemory for FirmwareMemory {
    fn physical_bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
        let last = length.checked_sub(1)?;
        address.checked_add(length as u64).filter(|&end| end <= PHYSICAL_MAP_BYTES)?;
        let physical = PhysAddr::try_new(address).ok()?;
        let mapped = mm::physical_to_virtual(physical);
        let mut pages = (0..length).step_by(PAGE_SIZE).chain([last]);
        let start = if pages.all(|offset| paging::translate(mapped + offset as u64).is_some()) {
            NonNull::new(mapped.as_mut_ptr())?
        } else {
            // Physical memory is not mapped there yet. The memory map does not list the region of the table, or lists
            // it as an unusable region that ends above 4 GiB.
            paging::map_device(physical, length).ok()?
        };
        // SAFETY: `length` bytes are mapped at `start`, and are never unmapped. Nothing writes to the firmware's
        // tables.
        Some(unsafe { slice::from_raw_parts(start.as_ptr(), length) })
    }
}
