//! Clocks whose rate is known: the HPET, or the PIT that every PC has.

use core::ptr::NonNull;

use x86_64::PhysAddr;
use x86_64::instructions::port::Port;

use crate::mm::paging;

/// HPET registers (IA-PC HPET specification 1.0a, 2.3).
const HPET_BYTES: usize = 0x400;
/// Upper half of the capabilities: femtoseconds per tick.
const HPET_PERIOD: usize = 0x004;
const HPET_CONFIGURATION: usize = 0x010;
const HPET_COUNTER: usize = 0x0f0;
const HPET_ENABLE: u32 = 1;
/// The longest period that the specification allows.
const HPET_LONGEST_PERIOD: u32 = 0x05f5_e100;

/// Ticks of the PIT per second (data sheet 8254; the rate is that of the first PC).
const PIT_HZ: u64 = 1_193_182;
/// PIT command: channel 2, low and high byte, mode 0 (count down once).
const PIT_START: u8 = 0b1011_0000;
/// PIT command: latch the count of channel 2.
const PIT_LATCH: u8 = 0b1000_0000;
/// On port 0x61: the gate of channel 2, and its way to the speaker.
const GATE: u8 = 1;
const SPEAKER: u8 = 2;

/// A clock that counts up at a known rate, until it wraps (after 42 s or 54 ms).
#[derive(Debug)]
pub(super) enum ReferenceClock {
    /// The high precision event timer: its registers and period in femtoseconds.
    Hpet(NonNull<u8>, u32),
    /// Channel 2 of the programmable interval timer.
    Pit,
}

impl ReferenceClock {
    /// Starts the HPET if there is one, otherwise the PIT.
    pub(super) fn start(hpet: Option<PhysAddr>) -> Self {
        hpet.and_then(Self::start_hpet).unwrap_or_else(Self::start_pit)
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
        let (mut control, mut channel, mut command) =
            (Port::<u8>::new(0x61), Port::<u8>::new(0x42), Port::<u8>::new(0x43));
        // SAFETY: the gate and speaker bits of the system control port; the others are written back as they were.
        let bits = unsafe { control.read() };
        // SAFETY: as above.
        unsafe { control.write(bits & !SPEAKER | GATE) };
        // SAFETY: nothing else uses this channel. The count starts when its high byte arrives.
        unsafe { command.write(PIT_START) };
        for byte in [0xff, 0xff] {
            // SAFETY: as above.
            unsafe { channel.write(byte) };
        }
        Self::Pit
    }

    /// Ticks so far, modulo 2^32 or 2^16.
    pub(super) fn read(&mut self) -> u64 {
        match self {
            // The lower half is sufficient, and some HPETs have no upper half.
            Self::Hpet(registers, _) => u64::from(read(*registers, HPET_COUNTER)),
            Self::Pit => {
                let (mut channel, mut command) = (Port::<u8>::new(0x42), Port::<u8>::new(0x43));
                // SAFETY: nothing else uses this channel.
                unsafe { command.write(PIT_LATCH) };
                // SAFETY: as above; low byte, then high byte.
                let bytes = [unsafe { channel.read() }, unsafe { channel.read() }];
                u64::from(!u16::from_le_bytes(bytes))
            }
        }
    }

    /// Ticks from one reading to a later one.
    pub(super) fn difference(&self, from: u64, to: u64) -> u64 {
        let difference = to.wrapping_sub(from);
        match self {
            Self::Hpet(..) => difference & 0xffff_ffff,
            Self::Pit => difference & 0xffff,
        }
    }

    /// Nanoseconds since a reading.
    pub(super) fn ns_since(&mut self, from: u64) -> u64 {
        let now = self.read();
        self.to_ns(self.difference(from, now))
    }

    /// Ticks in nanoseconds.
    pub(super) fn to_ns(&self, ticks: u64) -> u64 {
        match self {
            Self::Hpet(_, period) => ticks * u64::from(*period) / 1_000_000,
            Self::Pit => ticks * 1_000_000_000 / PIT_HZ,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Hpet(..) => "HPET",
            Self::Pit => "PIT",
        }
    }
}

fn read(registers: NonNull<u8>, offset: usize) -> u32 {
    // SAFETY: a register of the mapped HPET.
    let register = unsafe { registers.byte_add(offset) };
    // SAFETY: as above; reading it changes nothing.
    unsafe { register.cast().read_volatile() }
}

fn write(registers: NonNull<u8>, offset: usize, value: u32) {
    // SAFETY: a register of the mapped HPET.
    let register = unsafe { registers.byte_add(offset) };
    // SAFETY: as above; only the enable bit is changed.
    unsafe { register.cast().write_volatile(value) };
}
