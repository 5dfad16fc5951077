//! The local APIC (Intel SDM, volume 3, chapter 11): its registers, commands to other CPUs, and its timer.
//!
//! | file | |
//! |---|---|
//! | `registers` | the registers are in memory (xAPIC mode) or are model-specific registers (x2APIC mode) |
//! | `command` | interrupts, NMIs and start-up messages to other CPUs |
//! | `timer` | the timer fires when it has counted down to zero, or when the time stamp counter reaches a deadline |
//! | `recorder` | a bus for tests, which records the accesses |
//!
//! The code for the x2APIC and the TSC-deadline timer follows the manual and passes the tests of this module. It has
//! not been tried on hardware.

mod command;
#[cfg(test)]
mod recorder;
mod registers;
mod timer;

pub use command::{Command, To};
pub use registers::{APIC_BASE, Bus, LAST_XAPIC_ID, Mode, Register, X2APIC_BASE, choose_mode, device_target, is_on};
pub use timer::{TSC_DEADLINE, TimerMode};

use command::DELIVER_NMI;

/// The bit of the spurious vector register that makes the APIC accept interrupts.
const ENABLED: u32 = 1 << 8;
/// The bit of an entry of the local vector table that masks the interrupt.
const MASKED: u32 = 1 << 16;

/// Access to the APIC of the CPU that calls the methods.
#[derive(Clone, Copy, Debug)]
pub struct LocalApic<B> {
    bus: B,
    mode: Mode,
}

impl<B: Bus> LocalApic<B> {
    /// Returns the APIC that is accessed through `bus`. `mode` is the APIC's mode. If the APIC is not in this mode yet,
    /// the caller must call [`enter`](Self::enter) before all other methods.
    #[inline(always)]
    pub fn new(bus: B, mode: Mode) -> Self {
        Self { bus, mode }
    }

    /// Makes the APIC accept interrupts. Spurious interrupts and APIC errors come on the given vectors. The APIC's
    /// input line 0 is masked, and line 1 delivers NMIs. The timer is masked.
    pub fn enable(&self, spurious: u8, error: u8) {
        self.write(Register::TimerEntry, MASKED);
        self.write(Register::Line0Entry, MASKED);
        self.write(Register::Line1Entry, DELIVER_NMI);
        self.write(Register::ErrorEntry, u32::from(error));
        self.write(Register::TaskPriority, 0);
        self.write(Register::SpuriousVector, ENABLED | u32::from(spurious));
        // Clear errors from before this moment, so that they are not reported.
        self.write(Register::ErrorStatus, 0);
        self.end_of_interrupt();
    }

    /// Returns the id of this APIC.
    pub fn id(&self) -> u32 {
        match self.mode {
            Mode::XApic => self.read(Register::Id) >> 24,
            Mode::X2Apic => self.read(Register::Id),
        }
    }

    /// Signals to the APIC that the current interrupt has been handled.
    #[inline(always)]
    pub fn end_of_interrupt(&self) {
        self.write(Register::EndOfInterrupt, 0);
    }

    /// Returns the errors that the APIC has detected since the last call, as the bits of the error status register.
    pub fn take_errors(&self) -> u32 {
        // A write latches the errors since the previous write, and a read returns the latched ones (SDM 11.5.3).
        self.write(Register::ErrorStatus, 0);
        self.read(Register::ErrorStatus)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::recorder::{Access, Recorder, accesses};
    use super::*;

    #[test]
    fn ids_have_8_or_32_bits() {
        let recorder = Recorder {
            memory: [(0x20, 0x2a00_0000)].into(),
            msrs: [(0x802, 0x0001_0203)].into(),
            ..Recorder::default()
        };
        assert_eq!(LocalApic::new(&recorder, Mode::XApic).id(), 0x2a);
        assert_eq!(LocalApic::new(&recorder, Mode::X2Apic).id(), 0x1_0203);
    }

    #[test]
    fn enabling_writes_the_same_registers_in_both_modes() {
        let enable = |apic: LocalApic<&Recorder>| apic.enable(0xff, 0xfe);
        let in_memory = [
            (0x320, 0x1_0000),
            (0x350, 0x1_0000),
            (0x360, 0x400),
            (0x370, 0xfe),
            (0x80, 0),
            (0xf0, 0x1ff),
            (0x280, 0),
            (0xb0, 0),
        ];
        assert_eq!(accesses(Mode::XApic, enable), in_memory.map(|(offset, value)| Access::Memory(offset, value)));
        let numbers = [0x832, 0x835, 0x836, 0x837, 0x808, 0x80f, 0x828, 0x80b];
        let in_msrs: Vec<_> =
            numbers.iter().zip(in_memory).map(|(&number, (_, value))| Access::Msr(number, value.into())).collect();
        assert_eq!(accesses(Mode::X2Apic, enable), in_msrs);
    }

    #[test]
    fn errors_are_read_after_a_write() {
        let recorder = Recorder { memory: [(0x280, 0x40)].into(), ..Recorder::default() };
        assert_eq!(LocalApic::new(&recorder, Mode::XApic).take_errors(), 0x40);
        assert_eq!(recorder.accesses.into_inner(), [Access::Memory(0x280, 0)]);
    }
}
