//! The clocks whose rates are known: the HPET, the ACPI power management timer and the PIT. The kernel measures the
//! rates of its other clocks against one or several of these three.

use core::iter;
use core::ptr::NonNull;

use kernel_formats::calibration::Reference;
use x86_64::PhysAddr;
use x86_64::instructions::port::Port;

use super::pit;
use crate::arch::acpi::Tables;
use crate::mm::paging;

/// The size of the HPET's registers in bytes (IA-PC HPET specification 1.0a, 2.3). The next three constants are offsets
/// of registers.
const HPET_BYTES: usize = 0x400;
/// The upper half of the capabilities register: the period of the clock, in femtoseconds per tick.
const HPET_PERIOD: usize = 0x004;
const HPET_CONFIGURATION: usize = 0x010;
const HPET_COUNTER: usize = 0x0f0;
/// The bit of the configuration register that makes the counter run.
const HPET_ENABLE: u32 = 1;
/// The longest period that the specification allows, in femtoseconds.
const HPET_LONGEST_PERIOD: u32 = 0x05f5_e100;

/// A clock that counts up at a known rate.
#[derive(Debug)]
pub(super) enum ReferenceClock {
    /// The high precision event timer: the address of its registers, and its period in femtoseconds.
    Hpet(NonNull<u8>, u32),
    /// The ACPI power management timer: the port of its counter.
    PmTimer(Port<u32>),
    /// Channel 2 of the programmable interval timer.
    Pit,
}

impl ReferenceClock {
    /// Returns the clocks of this computer, the best one first. A clock starts when the iterator reaches it. The PIT
    /// comes last, because its counter wraps after 55 ms. The result contains the PIT on every computer, because the
    /// firmware's tables do not say whether there is one.
    pub(super) fn all(tables: &Tables) -> impl Iterator<Item = Self> {
        let hpet = iter::once_with(|| tables.hpet.and_then(Self::start_hpet));
        let pm_timer = iter::once_with(|| tables.pm_timer.map(|port| Self::PmTimer(Port::new(port))));
        let pit = iter::once_with(|| Some(Self::start_pit()));
        hpet.chain(pm_timer).chain(pit).flatten()
    }

    fn start_hpet(address: PhysAddr) -> Option<Self> {
        let registers = paging::map_device(address, HPET_BYTES).ok()?;
        let period = read(registers, HPET_PERIOD);
        if period == 0 || period > HPET_LONGEST_PERIOD {
            return None;
        }
        write(registers, HPET_CONFIGURATION, read(registers, HPET_CONFIGURATION) | HPET_ENABLE);
        Some(Self::Hpet(registers, period))
    }

    fn start_pit() -> Self {
        pit::start(u16::MAX);
        Self::Pit
    }

    /// Returns the width and the rate of the counter.
    pub(super) fn reference(&self) -> Reference {
        match self {
            Self::Hpet(_, period) => Reference::hpet(*period),
            Self::PmTimer(_) => Reference::PM_TIMER,
            Self::Pit => Reference::PIT,
        }
    }

    /// Returns the counter's value.
    pub(super) fn read(&mut self) -> u32 {
        match self {
            // The lower half of the counter is sufficient, and some HPETs have no upper half.
            Self::Hpet(registers, _) => read(*registers, HPET_COUNTER),
            // SAFETY: the firmware's table says that this is the port of the timer. Reading it has no side effect.
            Self::PmTimer(port) => unsafe { port.read() },
            // The PIT counts down, so its inverted count rises.
            Self::Pit => u32::from(!pit::count()),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Hpet(..) => "HPET",
            Self::PmTimer(_) => "ACPI timer",
            Self::Pit => "PIT",
        }
    }
}

fn read(registers: NonNull<u8>, offset: usize) -> u32 {
    // SAFETY: the HPET is mapped at `registers`, and the callers pass the offsets of its registers.
    let register = unsafe { registers.byte_add(offset) };
    // SAFETY: this is the address of an HPET register. Reading it has no side effect.
    unsafe { register.cast().read_volatile() }
}

fn write(registers: NonNull<u8>, offset: usize, value: u32) {
    // SAFETY: the HPET is mapped at `registers`, and the callers pass the offsets of its registers.
    let register = unsafe { registers.byte_add(offset) };
    // SAFETY: this is the address of an HPET register. The only caller sets the enable bit and keeps the others.
    unsafe { register.cast().write_volatile(value) };
}
