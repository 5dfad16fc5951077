//! The timer. In one mode it fires when it has counted down to zero. In the other mode it fires when the time stamp
//! counter reaches a deadline.

use super::LocalApic;
use super::registers::{Bus, Register};

/// The number of the model-specific register with the deadline: the value of the time stamp counter at which the timer
/// fires in deadline mode.
pub const TSC_DEADLINE: u32 = 0x6e0;

/// The bits of the timer's entry of the local vector table that select deadline mode.
const WAIT_FOR_TIME_STAMP: u32 = 0b10 << 17;
/// The value of the timer's divide register that makes the timer count at the full rate of its clock.
const DIVIDE_BY_1: u32 = 0b1011;

/// The timer's mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerMode {
    /// The timer counts down once, from the value given to [`LocalApic::start_timer`], and fires at zero.
    OneShot,
    /// The timer fires once when the time stamp counter reaches the value given to [`LocalApic::start_timer_at`].
    Deadline,
}

impl<B: Bus> LocalApic<B> {
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

    /// Makes the timer fire after `counts` counts. The timer must be in [`TimerMode::OneShot`], and `counts` must not
    /// be zero.
    #[inline]
    pub fn start_timer(&self, counts: u32) {
        self.write(Register::TimerInitial, counts);
    }

    /// Makes the timer fire when the time stamp counter reaches `time_stamp`. If the counter is at or above
    /// `time_stamp` already, the timer fires at once. The timer must be in [`TimerMode::Deadline`].
    #[inline]
    pub fn start_timer_at(&self, time_stamp: u64) {
        // A deadline of zero would stop the timer.
        self.bus.write_msr(TSC_DEADLINE, time_stamp.max(1));
    }

    /// Stops the timer. `mode` must be the timer's mode.
    #[inline]
    pub fn stop_timer(&self, mode: TimerMode) {
        match mode {
            TimerMode::OneShot => self.write(Register::TimerInitial, 0),
            TimerMode::Deadline => self.bus.write_msr(TSC_DEADLINE, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::super::recorder::{Access, Recorder, accesses};
    use super::super::registers::Mode;
    use super::*;

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
            // This call must write 1 to the register, because 0 would stop the timer.
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
}
