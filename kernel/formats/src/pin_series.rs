//! For how long a CPU had preemption off, measured by its timer ticks.
//!
//! A *series* consists of ticks that found preemption off, and between which preemption was never on. How does a tick
//! know that preemption was never on since the last one? The first tick of a series requests a switch, which stays
//! pending while preemption is off. As soon as preemption is on again, the CPU ends the series and makes the pending
//! switch. So if the next tick still finds a switch pending, preemption was never on between the two ticks.
//!
//! Only the CPU to which a series belongs changes the series: in its timer interrupt, when preemption is turned on, at
//! its switches, and when it becomes idle. Other CPUs read the series.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

/// The value of a time that is not set.
pub const NEVER: u64 = u64::MAX;

/// The current series of one CPU, and the length of its longest series.
#[derive(Debug)]
pub struct PinSeries {
    /// The time of the first tick of the current series in ns, or [`NEVER`] if there is no series.
    since: AtomicU64,
    /// The number of ticks in the current series, if there is one.
    ticks: AtomicU32,
    /// The longest time from the first tick of a series until preemption was on again, in ns.
    longest: AtomicU64,
}

impl PinSeries {
    /// Returns the first state, in which there was no series.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a part of a static, made in one place")]
    pub const fn new() -> Self {
        Self { since: AtomicU64::new(NEVER), ticks: AtomicU32::new(0), longest: AtomicU64::new(0) }
    }

    /// Returns the time of the first tick and the number of ticks of the current series. The time is [`NEVER`] if there
    /// is no series.
    #[must_use]
    pub fn current(&self) -> (u64, u32) {
        (self.since.load(Ordering::Relaxed), self.ticks.load(Ordering::Relaxed))
    }

    /// Whether there is a series.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.since.load(Ordering::Relaxed) != NEVER
    }

    /// Returns the longest time from the first tick of a series until preemption was on again.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
    }

    /// Ends the series without a record of its length. Called when the CPU begins to run another thread or becomes
    /// idle, because each thread has pins of its own.
    pub fn forget(&self) {
        self.since.store(NEVER, Ordering::Relaxed);
    }

    /// Ends the series at `now`, if there is one, and records its length if it is the longest so far. Called when
    /// preemption is turned on while a switch is pending, and by [`tick`](Self::tick) if the tick finds preemption on.
    pub fn end(&self, now: u64) {
        let since = self.since.load(Ordering::Relaxed);
        if since != NEVER {
            self.forget();
            self.longest.fetch_max(now.saturating_sub(since), Ordering::Relaxed);
        }
    }

    /// Records a timer tick at `now`. `is_off` says whether the tick has found preemption off, and `is_pending` whether
    /// it has found a switch pending. Returns whether the tick begins a series; if so, the caller must request a
    /// switch.
    #[must_use]
    pub fn tick(&self, is_off: bool, is_pending: bool, now: u64) -> bool {
        if !is_off {
            // If there is a series, preemption was turned on after its last tick, but the series was not ended then.
            // The usual reason is that this tick has come between the last unpin and the pending switch. The switch
            // will find no series, so the length is recorded here.
            self.end(now);
            return false;
        }
        let begins = !self.is_active() || !is_pending;
        if begins {
            self.since.store(now, Ordering::Relaxed);
            self.ticks.store(1, Ordering::Relaxed);
        } else {
            self.ticks.store(self.ticks.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU whose ticks, pins and switches a test chooses.
    struct Cpu {
        series: PinSeries,
        is_off: bool,
        is_pending: bool,
    }

    impl Cpu {
        fn new() -> Self {
            Self { series: PinSeries::new(), is_off: false, is_pending: false }
        }

        fn tick(&mut self, now: u64) {
            self.is_pending |= self.series.tick(self.is_off, self.is_pending, now);
        }

        fn pin(&mut self) {
            self.is_off = true;
        }

        fn unpin(&mut self) {
            self.is_off = false;
        }

        /// Makes the pending switch, if there is one, as a CPU does after the last unpin.
        fn switch(&mut self, now: u64) {
            assert!(!self.is_off);
            if core::mem::take(&mut self.is_pending) {
                self.series.end(now);
            }
        }
    }

    #[test]
    fn series_lasts_from_its_first_tick_until_the_switch() {
        let mut cpu = Cpu::new();
        cpu.pin();
        [10, 20, 30].into_iter().for_each(|now| cpu.tick(now));
        assert_eq!(cpu.series.current(), (10, 3));
        cpu.unpin();
        cpu.switch(34);
        assert_eq!((cpu.series.is_active(), cpu.series.longest()), (false, Duration::from_nanos(24)));
    }

    /// The timer fires between the last unpin and the pending switch, so it finds preemption on.
    #[test]
    fn series_that_a_tick_ends_before_the_switch_is_recorded() {
        let mut cpu = Cpu::new();
        cpu.pin();
        [10, 20].into_iter().for_each(|now| cpu.tick(now));
        cpu.unpin();
        cpu.tick(30);
        assert!(!cpu.series.is_active());
        cpu.switch(31);
        assert_eq!(cpu.series.longest(), Duration::from_nanos(20));
    }

    #[test]
    fn preemption_that_was_on_between_two_ticks_begins_another_series() {
        let mut cpu = Cpu::new();
        cpu.pin();
        cpu.tick(10);
        cpu.unpin();
        cpu.switch(15);
        cpu.pin();
        cpu.tick(20);
        assert_eq!(cpu.series.current(), (20, 1));
        cpu.unpin();
        cpu.switch(22);
        assert_eq!(cpu.series.longest(), Duration::from_nanos(5));
    }

    /// Another part of the kernel may make the pending switch without ending the series.
    #[test]
    fn tick_that_finds_no_switch_pending_begins_another_series() {
        let mut cpu = Cpu::new();
        cpu.pin();
        cpu.tick(10);
        cpu.is_pending = false;
        cpu.tick(20);
        assert_eq!(cpu.series.current(), (20, 1));
        assert!(cpu.is_pending);
    }

    #[test]
    fn series_of_a_thread_that_is_switched_away_is_forgotten() {
        let mut cpu = Cpu::new();
        cpu.pin();
        cpu.tick(10);
        cpu.series.forget();
        cpu.tick(20);
        assert_eq!(cpu.series.current(), (20, 1));
        cpu.unpin();
        cpu.switch(21);
        assert_eq!(cpu.series.longest(), Duration::from_nanos(1));
    }

    #[test]
    fn cpu_that_never_has_preemption_off_at_a_tick_has_no_series() {
        let mut cpu = Cpu::new();
        (1..10).for_each(|now| cpu.tick(now));
        cpu.switch(10);
        assert_eq!((cpu.series.is_active(), cpu.series.longest(), cpu.is_pending), (false, Duration::ZERO, false));
    }
}
