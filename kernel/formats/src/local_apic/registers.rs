//! The APIC's two modes, and how its registers are accessed in each of them.

use super::LocalApic;

/// Access to the registers. The kernel implements this trait with the hardware, and the tests implement it with a
/// recorder.
pub trait Bus {
    /// Reads the memory-mapped register at `offset`.
    fn read_memory(&self, offset: u16) -> u32;

    /// Writes the memory-mapped register at `offset`.
    fn write_memory(&self, offset: u16, value: u32);

    /// Reads a model-specific register.
    fn read_msr(&self, number: u32) -> u64;

    /// Writes a model-specific register.
    fn write_msr(&self, number: u32, value: u64);

    /// Waits until all earlier accesses to memory are complete and visible to all CPUs. No later access begins before
    /// that. (On the processor: `mfence; lfence`.)
    fn fence(&self);
}

/// The APIC's mode, which determines where its registers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// xAPIC: the registers are in memory. APIC ids have 8 bits, and 255 means all CPUs.
    XApic,
    /// x2APIC: the registers are model-specific registers. APIC ids have 32 bits.
    X2Apic,
}

/// The registers, each with its offset in memory. In x2APIC mode the number of a register is [`X2APIC_BASE`] plus a
/// 16th of that offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
#[expect(missing_docs, reason = "names of the architecture")]
pub enum Register {
    Id = 0x20,
    TaskPriority = 0x80,
    EndOfInterrupt = 0xb0,
    SpuriousVector = 0xf0,
    ErrorStatus = 0x280,
    CommandLow = 0x300,
    /// The upper half of a command. This register exists only in xAPIC mode, because in x2APIC mode `CommandLow` has
    /// all 64 bits.
    CommandHigh = 0x310,
    TimerEntry = 0x320,
    Line0Entry = 0x350,
    Line1Entry = 0x360,
    ErrorEntry = 0x370,
    TimerInitial = 0x380,
    TimerCurrent = 0x390,
    TimerDivide = 0x3e0,
}

/// The number of the first model-specific register of the x2APIC (SDM 11.12.1.2).
pub const X2APIC_BASE: u32 = 0x800;

/// The number of the model-specific register with the APIC's address and mode.
pub const APIC_BASE: u32 = 0x1b;
/// The bit of [`APIC_BASE`] that is set if the APIC is enabled.
const BASE_ENABLED: u64 = 1 << 11;
/// The bit of [`APIC_BASE`] that is set if the APIC is in x2APIC mode.
const BASE_X2APIC: u64 = 1 << 10;

/// The largest APIC id that xAPIC mode can address.
pub const LAST_XAPIC_ID: u32 = 254;

/// Returns the mode to use. The mode is x2APIC mode in two cases:
///
/// - The firmware has enabled x2APIC mode. An APIC in this mode cannot change to xAPIC mode without being disabled
///   first.
/// - The processor has x2APIC mode, and one of the APIC `ids` is too large for xAPIC mode.
///
/// In all other cases the mode is xAPIC mode.
///
/// `base` is the content of [`APIC_BASE`].
pub fn choose_mode(base: u64, has_x2apic: bool, ids: impl IntoIterator<Item = u32>) -> Mode {
    let is_needed = ids.into_iter().any(|id| id > LAST_XAPIC_ID);
    if base & BASE_X2APIC != 0 || (is_needed && has_x2apic) { Mode::X2Apic } else { Mode::XApic }
}

/// Returns the first of these APIC ids to which a device can send interrupts. An interrupt message and an entry of an
/// I/O APIC have eight bits for the id, and the value 255 means all CPUs.
pub fn device_target(ids: impl IntoIterator<Item = u32>) -> Option<u8> {
    ids.into_iter().filter(|&id| id <= LAST_XAPIC_ID).find_map(|id| u8::try_from(id).ok())
}

/// Whether the APIC is enabled. `base` is the content of [`APIC_BASE`].
pub fn is_on(base: u64) -> bool {
    base & BASE_ENABLED != 0
}

impl<B: Bus> LocalApic<B> {
    /// Switches the APIC to x2APIC mode if [`new`](Self::new) was called with that mode and the APIC is in xAPIC mode.
    /// Otherwise does nothing. The APIC must be enabled.
    pub fn enter(&self) {
        let base = self.bus.read_msr(APIC_BASE);
        if self.mode == Mode::X2Apic && base & BASE_X2APIC == 0 {
            self.bus.write_msr(APIC_BASE, base | BASE_ENABLED | BASE_X2APIC);
        }
    }

    /// Reads a register.
    #[inline(always)]
    pub fn read(&self, register: Register) -> u32 {
        match self.mode {
            Mode::XApic => self.bus.read_memory(register as u16),
            // The upper half of the 64 bits is reserved in every register except the command register.
            #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
            Mode::X2Apic => self.bus.read_msr(msr(register)) as u32,
        }
    }

    /// Writes a register.
    #[inline(always)]
    pub fn write(&self, register: Register, value: u32) {
        match self.mode {
            Mode::XApic => self.bus.write_memory(register as u16, value),
            Mode::X2Apic => self.bus.write_msr(msr(register), u64::from(value)),
        }
    }
}

/// Returns the number that `register` has among the model-specific registers in x2APIC mode.
#[inline(always)]
pub(super) const fn msr(register: Register) -> u32 {
    X2APIC_BASE + (register as u32 >> 4)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use super::super::recorder::{Access, Recorder};
    use super::*;

    #[test]
    fn x2apic_mode_is_entered_only_if_it_is_off() {
        let enter = |base, mode| {
            let recorder = Recorder { msrs: [(0x1b, base)].into(), ..Recorder::default() };
            LocalApic::new(&recorder, mode).enter();
            recorder.accesses.into_inner()
        };
        assert_eq!(enter(0xfee0_0900, Mode::X2Apic), [Access::Msr(0x1b, 0xfee0_0d00)]);
        assert_eq!(enter(0xfee0_0d00, Mode::X2Apic), []);
        assert_eq!(enter(0xfee0_0900, Mode::XApic), []);
    }

    #[test]
    fn devices_interrupt_the_first_cpu_whose_id_has_eight_bits() {
        assert_eq!(device_target([3, 1]), Some(3));
        // The id 255 would mean all CPUs.
        assert_eq!(device_target([255, 0x101, 254]), Some(254));
        assert_eq!(device_target([0x100, u32::MAX]), None);
    }

    #[test]
    fn x2apic_mode_is_kept_or_used_if_an_id_needs_it() {
        const LEFT_ON: u64 = 0xfee0_0d00;
        const AS_ALWAYS: u64 = 0xfee0_0900;
        for (base, has_x2apic, ids, expected) in [
            (AS_ALWAYS, true, vec![0, 1, 254], Mode::XApic),
            (AS_ALWAYS, true, vec![0, 255], Mode::X2Apic),
            (AS_ALWAYS, true, vec![0, 0x100], Mode::X2Apic),
            (AS_ALWAYS, false, vec![0, 0x100], Mode::XApic),
            (LEFT_ON, true, vec![0], Mode::X2Apic),
        ] {
            assert_eq!(choose_mode(base, has_x2apic, ids.clone()), expected, "{base:#x} {has_x2apic} {ids:?}");
        }
        assert!(is_on(AS_ALWAYS) && !is_on(0xfee0_0100));
    }
}
