//! Commands to other CPUs: interrupts, NMIs and the messages that start a CPU.

use super::LocalApic;
use super::registers::{Bus, Mode, Register, msr};

/// The delivery mode for non-maskable interrupts. The delivery mode is a field of a command, and of an entry of the
/// local vector table.
pub(super) const DELIVER_NMI: u32 = 4 << 8;
/// The delivery mode for resetting a CPU.
const DELIVER_INIT: u32 = 5 << 8;
/// The delivery mode for starting a CPU that has been reset.
const DELIVER_STARTUP: u32 = 6 << 8;
/// The bit of the command register that is set while the previous command is still being delivered.
const SEND_PENDING: u32 = 1 << 12;
/// The level bit of a command. It is set in every command except one obsolete form of INIT.
const ASSERT: u32 = 1 << 14;
/// The bits that send a command to all CPUs except the sender. The APIC id in such a command is ignored.
const TO_OTHERS: u32 = 0b11 << 18;

/// The receivers of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// The CPU whose APIC has this id.
    Id(u32),
    /// All CPUs except the sender, including those that the kernel does not use.
    Others,
}

/// What a command does to its receivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Interrupts the CPU on a vector.
    Interrupt(u8),
    /// Sends a non-maskable interrupt, which the CPU takes even if its interrupts are off.
    NonMaskable,
    /// Resets the CPU, which then waits for a start-up message.
    Init,
    /// Starts a CPU that has been reset. The CPU starts in real mode, in the page with this number. This page is below
    /// 1 MiB.
    Startup(u8),
}

impl Command {
    fn bits(self) -> u32 {
        let message = match self {
            Self::Interrupt(vector) => u32::from(vector),
            Self::NonMaskable => DELIVER_NMI,
            Self::Init => DELIVER_INIT,
            Self::Startup(page) => DELIVER_STARTUP | u32::from(page),
        };
        ASSERT | message
    }
}

impl<B: Bus> LocalApic<B> {
    /// Whether the last command is still being delivered. If so, the caller must wait. Always `false` in x2APIC mode.
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.mode == Mode::XApic && self.read(Register::CommandLow) & SEND_PENDING != 0
    }

    /// Sends a command. The caller must have interrupts off, because in xAPIC mode a command takes two writes, and an
    /// interrupt handler between them could send another command.
    #[inline]
    pub fn send(&self, to: To, command: Command) {
        let (id, low) = match to {
            To::Id(id) => (id, command.bits()),
            To::Others => (0, command.bits() | TO_OTHERS),
        };
        match self.mode {
            Mode::XApic => {
                self.write(Register::CommandHigh, id << 24);
                self.write(Register::CommandLow, low);
            }
            Mode::X2Apic => {
                // The receivers of the command must see everything that this CPU has written to memory before the
                // command. A write to a model-specific register of the x2APIC may overtake those writes (SDM 11.12.3),
                // so a fence comes first. In xAPIC mode the command is itself a write to memory, and is ordered after
                // those writes.
                self.bus.fence();
                self.bus.write_msr(msr(Register::CommandLow), u64::from(id) << 32 | u64::from(low));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{Access, Recorder, accesses};
    use super::*;

    #[test]
    fn xapic_command_is_two_writes_with_the_receiver_first() {
        for (to, command, expected) in [
            (To::Id(3), Command::Interrupt(0xf1), [(0x310, 0x0300_0000), (0x300, 0x0000_40f1)]),
            (To::Id(254), Command::NonMaskable, [(0x310, 0xfe00_0000), (0x300, 0x0000_4400)]),
            (To::Id(1), Command::Init, [(0x310, 0x0100_0000), (0x300, 0x0000_4500)]),
            (To::Id(1), Command::Startup(0x9f), [(0x310, 0x0100_0000), (0x300, 0x0000_469f)]),
            (To::Others, Command::Interrupt(0x40), [(0x310, 0), (0x300, 0x000c_4040)]),
        ] {
            let expected = expected.map(|(offset, value)| Access::Memory(offset, value));
            assert_eq!(accesses(Mode::XApic, |apic| apic.send(to, command)), expected, "{command:?} to {to:?}");
        }
    }

    #[test]
    fn x2apic_command_is_one_write_after_a_fence() {
        for (to, command, expected) in [
            (To::Id(3), Command::Interrupt(0xf1), 0x0000_0003_0000_40f1),
            (To::Id(0x1_2345), Command::NonMaskable, 0x0001_2345_0000_4400),
            (To::Id(0xffff_fffe), Command::Init, 0xffff_fffe_0000_4500),
            (To::Id(255), Command::Startup(8), 0x0000_00ff_0000_4608),
            (To::Others, Command::Interrupt(0x40), 0x0000_0000_000c_4040),
        ] {
            let expected = [Access::Fence, Access::Msr(0x830, expected)];
            assert_eq!(accesses(Mode::X2Apic, |apic| apic.send(to, command)), expected, "{command:?} to {to:?}");
        }
    }

    #[test]
    fn pending_command_is_reported_only_in_xapic_mode() {
        for (low, is_sending) in [(0x40f1, false), (0x50f1, true)] {
            let recorder = Recorder { memory: [(0x300, low)].into(), ..Recorder::default() };
            assert_eq!(LocalApic::new(&recorder, Mode::XApic).is_sending(), is_sending);
        }
        // In x2APIC mode `is_sending` reads no register. If it read one, this recorder would panic, because it contains
        // no register.
        assert!(!LocalApic::new(&Recorder::default(), Mode::X2Apic).is_sending());
    }
}
