//! The clocks whose rates are known: the HPET and the PIT. The rates of the other clocks are measured against the HPET
//! or the PIT. Every PC has a PIT.

use core::ptr::NonNull;

use x86_64::PhysAddr;
use x86_64::instructions::port::Port;

use crate::mm::paging;

/// The size of the HPET's registers in bytes (IA-PC HPET specification 1.0a, 2.3). The next three constants are offsets of
/// registers.
const HPET_BYTES: usize = 0x400;
/// The upper half of the capabilities register: the period of the clock, in femtoseconds per tick.
const HPET_PERIOD: usize = 0x004;
const HPET_CONFIGURATION: usize = 0x010;
const HPET_COUNTER: usize = 0x0f0;
/// The bit of the configuration register that makes the counter run.
const HPET_ENABLE: u32 = 1;
/// The longest period that the specification allows, in femtoseconds.
const HPET_LONGEST_PERIOD: u32 = 0x05f5_e100;

/// Ticks of the PIT (Intel 8254) per second, as in the first PC.
const PIT_HZ: u64 = 1_193_182;
/// PIT command: set channel 2 to mode 0 (count down once). The initial count follows as two bytes, low byte first.
const PIT_START: u8 = 0b1011_0000;
/// PIT command: latch the present count of channel 2, so that its two bytes can be read.
const PIT_LATCH: u8 = 0b1000_0000;
/// The bit of port 0x61 that is the gate of channel 2. The channel counts while this bit is set.
const GATE: u8 = 1;
/// The bit of port 0x61 that connects the output of channel 2 to the speaker.
const SPEAKER: u8 = 2;

/// A clock that counts up at a known rate. Its counter wraps. The kernel uses 32 bits of the HPET's counter, which wrap
/// after 42 s if the HPET runs at 100 MHz. The PIT's counter has 16 bits, which wrap after 54 ms.
#[derive(Debug)]
pub(super) enum ReferenceClock {
    /// The high precision event timer: the address of its registers, and its period in femtoseconds.
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
        // SAFETY: 0x61 is the system control port. Reading it has no side effect.
        let bits = unsafe { control.read() };
        // SAFETY: this changes only the gate and the speaker bit of channel 2. The other bits are written back as they were.
        unsafe { control.write(bits & !SPEAKER | GATE) };
        // SAFETY: no other code uses channel 2. The channel starts counting when the high byte of its initial count is written.
        unsafe { command.write(PIT_START) };
        for byte in [0xff, 0xff] {
            // SAFETY: no other code uses channel 2.
            unsafe { channel.write(byte) };
        }
        Self::Pit
    }

    /// Returns the number of ticks of the clock, modulo 2^32 (HPET) or 2^16 (PIT).
    pub(super) fn read(&mut self) -> u64 {
        match self {
            // The lower half of the counter is sufficient, and some HPETs have no upper half.
            Self::Hpet(registers, _) => u64::from(read(*registers, HPET_COUNTER)),
            Self::Pit => {
                let (mut channel, mut command) = (Port::<u8>::new(0x42), Port::<u8>::new(0x43));
                // SAFETY: no other code uses channel 2.
                unsafe { command.write(PIT_LATCH) };
                // SAFETY: no other code uses channel 2. The low byte is read first, then the high byte.
                let bytes = [unsafe { channel.read() }, unsafe { channel.read() }];
                u64::from(!u16::from_le_bytes(bytes))
            }
        }
    }

    /// Returns the number of ticks from one result of [`read`](Self::read) to a later one.
    pub(super) fn difference(&self, from: u64, to: u64) -> u64 {
        let difference = to.wrapping_sub(from);
        match self {
            Self::Hpet(..) => difference & 0xffff_ffff,
            Self::Pit => difference & 0xffff,
        }
    }

    /// Returns the nanoseconds since `from`, which is a result of [`read`](Self::read).
    pub(super) fn ns_since(&mut self, from: u64) -> u64 {
        let now = self.read();
        self.to_ns(self.difference(from, now))
    }

    /// Converts ticks to nanoseconds.
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
