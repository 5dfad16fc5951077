//! The local APIC (Intel SDM, volume 3, chapter 11): its registers, commands to other CPUs, and its timer.
//!
//! The registers are in memory (xAPIC mode) or are model-specific registers (x2APIC mode). The timer counts down, or fires
//! when the time stamp counter reaches a deadline.
//!
//! The code for the x2APIC and the TSC-deadline timer follows the manual and passes the tests below. It has not been tried
//! on hardware.

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

    /// Waits until all earlier accesses to memory are complete and visible to all CPUs. No later access begins before that.
    /// (On the processor: `mfence; lfence`.)
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

/// The registers, each with its offset in memory. In x2APIC mode the number of a register is [`X2APIC_BASE`] plus a 16th of
/// that offset.
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

/// The number of the model-specific register with the deadline: the value of the time stamp counter at which the timer
/// fires in deadline mode.
pub const TSC_DEADLINE: u32 = 0x6e0;

/// The largest APIC id that xAPIC mode can address.
pub const LAST_XAPIC_ID: u32 = 254;

/// The bit of the spurious vector register that makes the APIC accept interrupts.
const ENABLED: u32 = 1 << 8;
/// The bit of an entry of the local vector table that masks the interrupt.
const MASKED: u32 = 1 << 16;
/// The bits of the timer's entry of the local vector table that select deadline mode.
const WAIT_FOR_TIME_STAMP: u32 = 0b10 << 17;
/// This constant and the next two are delivery modes. A delivery mode is a field of a command or of an entry of the local
/// vector table.
const DELIVER_NMI: u32 = 4 << 8;
const DELIVER_INIT: u32 = 5 << 8;
const DELIVER_STARTUP: u32 = 6 << 8;
/// The bit of the command register that is set while the previous command is still being delivered.
const SEND_PENDING: u32 = 1 << 12;
/// The level bit of a command. It is set in every command except one obsolete form of INIT.
const ASSERT: u32 = 1 << 14;
/// The bits that send a command to all CPUs except the sender. The APIC id in such a command is ignored.
const TO_OTHERS: u32 = 0b11 << 18;
/// The value of the timer's divide register that makes the timer count at the full rate of its clock.
const DIVIDE_BY_1: u32 = 0b1011;

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

/// Whether the APIC is enabled. `base` is the content of [`APIC_BASE`].
pub fn is_on(base: u64) -> bool {
    base & BASE_ENABLED != 0
}

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

/// The timer's mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerMode {
    /// The timer counts down once, from the value given to [`LocalApic::start_timer`], and fires at zero.
    OneShot,
    /// The timer fires once when the time stamp counter reaches the value given to [`LocalApic::start_timer_at`].
    Deadline,
}

/// The APIC of the CPU that calls the methods.
#[derive(Clone, Copy, Debug)]
pub struct LocalApic<B> {
    bus: B,
    mode: Mode,
}

impl<B: Bus> LocalApic<B> {
    /// Returns the APIC that is accessed through `bus`. The APIC must be in `mode`. If it is not, the caller must call
    /// [`enter`](Self::enter) before all other methods.
    #[inline(always)]
    pub fn new(bus: B, mode: Mode) -> Self {
        Self { bus, mode }
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

    /// Switches the APIC to the mode that was passed to [`new`](Self::new). The APIC must be enabled.
    pub fn enter(&self) {
        let base = self.bus.read_msr(APIC_BASE);
        if self.mode == Mode::X2Apic && base & BASE_X2APIC == 0 {
            self.bus.write_msr(APIC_BASE, base | BASE_ENABLED | BASE_X2APIC);
        }
    }

    /// Makes the APIC accept interrupts. Spurious interrupts and APIC errors come on the given vectors. Of the APIC's two
    /// input lines, one delivers NMIs and the other is masked. The timer is masked.
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

    /// Whether the last command is still being delivered. If so, the caller must wait. Always `false` in x2APIC mode.
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.mode == Mode::XApic && self.read(Register::CommandLow) & SEND_PENDING != 0
    }

    /// Sends a command. The caller must have interrupts off: in xAPIC mode a command takes two writes, and an interrupt
    /// handler between them could send another command.
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
                // The interrupted CPU must see everything that this CPU has written to memory before. A write to a
                // model-specific register of the x2APIC may overtake those writes (SDM 11.12.3), so a fence comes
                // first. In xAPIC mode the command is itself a write to memory, and is ordered after those writes.
                self.bus.fence();
                self.bus.write_msr(msr(Register::CommandLow), u64::from(id) << 32 | u64::from(low));
            }
        }
    }

    /// Sets the timer's mode and vector. Leaves the timer stopped.
    pub fn set_timer(&self, mode: TimerMode, vector: u8) {
        match mode {
            TimerMode::OneShot => {
                self.write(Register::TimerDivide, DIVIDE_BY_1);
                self.write(Register::TimerEntry, u32::from(vector));
            }
            TimerMode::Deadline => {
                self.write(Register::TimerEntry, WAIT_FOR_TIME_STAMP | u32::from(vector));
                // If a later write of the deadline overtook this write of the mode, the deadline would be lost (SDM
                // 11.5.4.1).
                self.bus.fence();
            }
        }
        self.stop_timer(mode);
    }

    /// Makes the timer fire after `counts` counts. The timer must be in [`TimerMode::OneShot`], and `counts` must not be
    /// zero.
    #[inline]
    pub fn start_timer(&self, counts: u32) {
        self.write(Register::TimerInitial, counts);
    }

    /// Makes the timer fire when the time stamp counter reaches `time_stamp`, or at once if it already has. The timer must
    /// be in [`TimerMode::Deadline`].
    #[inline]
    pub fn start_timer_at(&self, time_stamp: u64) {
        // A deadline of zero would stop the timer.
        self.bus.write_msr(TSC_DEADLINE, time_stamp.max(1));
    }

    /// Stops the timer.
    #[inline]
    pub fn stop_timer(&self, mode: TimerMode) {
        match mode {
            TimerMode::OneShot => self.write(Register::TimerInitial, 0),
            TimerMode::Deadline => self.bus.write_msr(TSC_DEADLINE, 0),
        }
    }
}

/// Returns the number of the model-specific register that is `register` in x2APIC mode.
#[inline(always)]
const fn msr(register: Register) -> u32 {
    X2APIC_BASE + (register as u32 >> 4)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::cell::RefCell;
    use std::collections::HashMap;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// A recorded write or fence.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Access {
        Memory(u16, u32),
        Msr(u32, u64),
        Fence,
    }

    /// A [`Bus`] for tests: records writes and fences, and serves reads from `memory` and `msrs`.
    #[derive(Default, Debug)]
    struct Recorder {
        accesses: RefCell<Vec<Access>>,
        memory: HashMap<u16, u32>,
        msrs: HashMap<u32, u64>,
    }

    impl Bus for &Recorder {
        fn read_memory(&self, offset: u16) -> u32 {
            self.memory[&offset]
        }

        fn write_memory(&self, offset: u16, value: u32) {
            self.accesses.borrow_mut().push(Access::Memory(offset, value));
        }

        fn read_msr(&self, number: u32) -> u64 {
            self.msrs[&number]
        }

        fn write_msr(&self, number: u32, value: u64) {
            self.accesses.borrow_mut().push(Access::Msr(number, value));
        }

        fn fence(&self) {
            self.accesses.borrow_mut().push(Access::Fence);
        }
    }

    /// Calls `body` with an APIC in this mode, and returns the writes and fences that `body` has made.
    fn accesses(mode: Mode, body: impl Fn(LocalApic<&Recorder>)) -> Vec<Access> {
        let recorder = Recorder::default();
        body(LocalApic::new(&recorder, mode));
        recorder.accesses.into_inner()
    }

    #[test]
    fn commands_are_two_words_in_memory_the_receiver_first() {
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
    fn commands_are_one_register_of_the_x2apic_behind_a_fence() {
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
    fn a_command_waits_for_the_last_one_only_in_memory() {
        for (low, is_sending) in [(0x40f1, false), (0x50f1, true)] {
            let recorder = Recorder { memory: [(0x300, low)].into(), ..Recorder::default() };
            assert_eq!(LocalApic::new(&recorder, Mode::XApic).is_sending(), is_sending);
        }
        // In x2APIC mode the function reads no register. If it read one, the empty recorder would panic.
        assert!(!LocalApic::new(&Recorder::default(), Mode::X2Apic).is_sending());
    }

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
    fn both_modes_are_enabled_by_the_same_registers() {
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
    fn the_x2apic_is_entered_from_xapic_mode_and_once() {
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

    #[test]
    fn the_one_shot_timer_counts_down() {
        let use_it = |apic: LocalApic<&Recorder>| {
            apic.set_timer(TimerMode::OneShot, 0xf0);
            apic.start_timer(1000);
            apic.stop_timer(TimerMode::OneShot);
        };
        let in_memory = [(0x3e0, 0xb), (0x320, 0xf0), (0x380, 0), (0x380, 1000), (0x380, 0)];
        assert_eq!(accesses(Mode::XApic, use_it), in_memory.map(|(offset, value)| Access::Memory(offset, value)));
        let in_msrs = [(0x83e, 0xb), (0x832, 0xf0), (0x838, 0), (0x838, 1000), (0x838, 0)];
        assert_eq!(accesses(Mode::X2Apic, use_it), in_msrs.map(|(number, value)| Access::Msr(number, value)));
    }

    #[test]
    fn the_deadline_timer_waits_for_a_time_stamp() {
        let use_it = |apic: LocalApic<&Recorder>| {
            apic.set_timer(TimerMode::Deadline, 0xf0);
            apic.start_timer_at(0x1234_5678_9abc);
            // The timer must be set to 1, because 0 would stop it.
            apic.start_timer_at(0);
            apic.stop_timer(TimerMode::Deadline);
        };
        for (mode, entry) in
            [(Mode::XApic, Access::Memory(0x320, 0x4_00f0)), (Mode::X2Apic, Access::Msr(0x832, 0x4_00f0))]
        {
            let rest = [0, 0x1234_5678_9abc, 1, 0].map(|time_stamp| Access::Msr(0x6e0, time_stamp));
            let expected: Vec<_> = [entry, Access::Fence].into_iter().chain(rest).collect();
            assert_eq!(accesses(mode, use_it), expected);
        }
    }

    #[test]
    fn errors_are_read_behind_a_write() {
        let recorder = Recorder { memory: [(0x280, 0x40)].into(), ..Recorder::default() };
        assert_eq!(LocalApic::new(&recorder, Mode::XApic).take_errors(), 0x40);
        assert_eq!(recorder.accesses.into_inner(), [Access::Memory(0x280, 0)]);
    }
}
