//! Measures the rates of the time stamp counter and of the local APIC's timer against a clock with a known rate (the
//! reference).
//!
//! This is difficult in a virtual machine, because the host may pause the machine at any moment. If the counter of the
//! reference wraps during a pause, the reference seems to have counted a much shorter time than has really passed. (The
//! PIT wraps after 55 ms.) And if the pause comes between the reads of two counters, the counters are read at different
//! moments. Therefore:
//!
//! - [`Clocks::read`] reads all counters several times, and returns the values that were read in the shortest time.
//! - The measurement consists of many short intervals between consecutive reads. An interval that took much longer than
//!   the shortest one contains a pause and does not count.
//! - A reference whose counter does not advance is reported as an error, so that the caller can use another one.

use core::fmt;

/// An interval counts only if it is at most this many times as long as the shortest one. The reference must not wrap in
/// an interval of that length.
const LONGEST: u64 = 16;

/// If this many consecutive reads find the reference's counter unchanged, the reference is considered to stand still.
/// A working reference advances between nearly all reads: [`Clocks::read`] takes at least about a microsecond, and
/// every reference ticks at least once in a microsecond.
const PATIENCE: u32 = 20_000;

/// A result needs at least this number of intervals. If there were fewer, all of them might contain a pause.
const LEAST_INTERVALS: u32 = 32;

/// A measurement fails if it has no result after this many reads. This happens if nearly all intervals contain a pause.
const MOST_INTERVALS: u32 = 1_000_000;

/// A clock with a known rate, whose counter counts up and wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The width of the counter. At most 32.
    pub bits: u32,
    /// The length of a tick in femtoseconds (10^-15 s).
    pub femtoseconds: u64,
}

impl Reference {
    /// Channel 2 of the PIT (Intel 8254). It counts down, so its count must be inverted.
    pub const PIT: Self = Self { bits: 16, femtoseconds: FEMTOSECONDS / PIT_HZ };

    /// The ACPI power management timer, at 3.579545 MHz (ACPI 6.5, 4.8.3.3). The timer of some computers
    /// has 32 bits, but the kernel uses only the lower 24.
    pub const PM_TIMER: Self = Self { bits: 24, femtoseconds: FEMTOSECONDS / 3_579_545 };

    /// Returns a reference that consists of the lower half of the HPET's counter. `femtoseconds` is the period that the
    /// HPET reports.
    pub const fn hpet(femtoseconds: u32) -> Self {
        Self { bits: 32, femtoseconds: femtoseconds as u64 }
    }

    /// Returns the number of ticks from one value of the counter to a later one. The result is right only if fewer than
    /// 2^`bits` ticks have passed.
    fn difference(self, from: u32, to: u32) -> u64 {
        u64::from(to.wrapping_sub(from)) & ((1 << self.bits) - 1)
    }

    fn ticks_to_ns(self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * u128::from(self.femtoseconds) / 1_000_000;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// The rate of the PIT in ticks per second, as in the first PC.
pub const PIT_HZ: u64 = 1_193_182;

/// Femtoseconds per second.
const FEMTOSECONDS: u64 = 1_000_000_000_000_000;

/// The values of the three counters at nearly the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The counter of the reference, which counts up. Bits above [`Reference::bits`] are ignored.
    pub reference: u32,
    /// The time stamp counter.
    pub time_stamp: u64,
    /// The APIC's timer, which counts down and stops at zero.
    pub timer: u32,
}

/// Access to the counters. The kernel implements this trait with the hardware, and the tests implement it with a model.
pub trait Clocks {
    /// Starts the timer with its greatest value.
    fn start_timer(&mut self);

    /// Reads the three counters at nearly the same moment.
    fn read(&mut self) -> Reading;
}

/// How far the time stamp counter and the APIC's timer have counted in the time `ns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    /// The time in nanoseconds.
    pub ns: u64,
    /// The ticks of the time stamp counter.
    pub ticks: u64,
    /// The counts of the timer.
    pub counts: u64,
}

impl Rates {
    /// Returns the ticks of the time stamp counter per second.
    pub fn ticks_hz(self) -> u64 {
        hz(self.ticks, self.ns)
    }

    /// Returns the counts of the timer per second.
    pub fn counts_hz(self) -> u64 {
        hz(self.counts, self.ns)
    }
}

fn hz(count: u64, ns: u64) -> u64 {
    u64::try_from(u128::from(count) * NS_PER_SECOND / u128::from(ns.max(1))).unwrap_or(u64::MAX)
}

const NS_PER_SECOND: u128 = 1_000_000_000;

/// Why a reference cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The reference's counter does not count.
    StandsStill,
    /// The virtual machine was paused so often that too few intervals count. Or the virtual machine is so slow that the
    /// reference's counter may have wrapped unnoticed.
    TooManyPauses,
    /// The time stamp counter or the timer does not count.
    NothingToMeasure,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StandsStill => "it stands still",
            Self::TooManyPauses => "the host pauses this machine too often",
            Self::NothingToMeasure => "the time stamp counter or the timer of the local APIC stands still",
        })
    }
}

impl core::error::Error for Failure {}

/// Measures the rates of the time stamp counter and of the APIC's timer against `reference`. The intervals that count
/// have a total length of at least `ns` nanoseconds on the reference.
///
/// # Errors
/// See [`Failure`]. All loops are bounded, so this function returns for any values of the counters.
pub fn measure(reference: Reference, clocks: &mut impl Clocks, ns: u64) -> Result<Rates, Failure> {
    clocks.start_timer();
    let mut sum = Sum::default();
    let mut last = clocks.read();
    let mut idle_reads = 0;
    for _ in 0..MOST_INTERVALS {
        let next = clocks.read();
        let elapsed = reference.difference(last.reference, next.reference);
        if elapsed == 0 {
            // The reference has not advanced yet, so the interval continues.
            idle_reads += 1;
            if idle_reads == PATIENCE {
                return Err(Failure::StandsStill);
            }
            continue;
        }
        idle_reads = 0;
        let ticks = next.time_stamp.wrapping_sub(last.time_stamp);
        if next.timer == 0 {
            // The timer has reached zero, for example during a pause, so the number of its counts is unknown.
            clocks.start_timer();
            last = clocks.read();
            continue;
        }
        sum.add(Interval { elapsed, ticks, counts: u64::from(last.timer.wrapping_sub(next.timer)) });
        last = next;
        if sum.intervals >= LEAST_INTERVALS && reference.ticks_to_ns(sum.total.elapsed) >= ns {
            return sum.rates(reference);
        }
    }
    Err(Failure::TooManyPauses)
}

/// What the three counters have counted in an interval.
#[derive(Clone, Copy, Default, Debug)]
struct Interval {
    /// Ticks of the reference.
    elapsed: u64,
    ticks: u64,
    counts: u64,
}

/// The sum of the intervals that are not too long, and what is needed to recognise these intervals.
#[derive(Default, Debug)]
struct Sum {
    total: Interval,
    /// The number of intervals in `total`.
    intervals: u32,
    /// The shortest interval so far, as measured by the time stamp counter. `None` before the first interval.
    shortest: Option<Interval>,
    /// The ticks of the longest interval in `total`.
    longest_ticks: u64,
}

impl Sum {
    fn add(&mut self, interval: Interval) {
        let shortest = *self.shortest.insert(match self.shortest {
            Some(shortest) if shortest.ticks <= interval.ticks => shortest,
            _ => interval,
        });
        let limit = shortest.ticks.saturating_mul(LONGEST);
        if self.longest_ticks > limit {
            // Now that a shorter interval is known, an interval that was added earlier turns out to be too long, so it
            // contains a pause. The sum begins again.
            self.total = Interval::default();
            self.intervals = 0;
            self.longest_ticks = 0;
        }
        if interval.ticks <= limit {
            self.total.elapsed = self.total.elapsed.saturating_add(interval.elapsed);
            self.total.ticks = self.total.ticks.saturating_add(interval.ticks);
            self.total.counts = self.total.counts.saturating_add(interval.counts);
            self.intervals += 1;
            self.longest_ticks = self.longest_ticks.max(interval.ticks);
        }
    }

    fn rates(&self, reference: Reference) -> Result<Rates, Failure> {
        let Interval { elapsed, ticks, counts } = self.total;
        if ticks == 0 || counts == 0 {
            return Err(Failure::NothingToMeasure);
        }
        // The sum may contain intervals that are up to LONGEST times as long as the shortest one. The reference must
        // not wrap in an interval of that length.
        let shortest = self.shortest.map_or(0, |shortest| shortest.elapsed);
        if shortest.saturating_mul(LONGEST) >> reference.bits != 0 {
            return Err(Failure::TooManyPauses);
        }
        Ok(Rates { ns: reference.ticks_to_ns(elapsed), ticks, counts })
    }
}

/// The largest number of references: HPET, ACPI timer and PIT.
pub const MAX_REFERENCES: usize = 3;

/// Where the chosen rates come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source<S> {
    /// This reference has measured the rates.
    Measured(S),
    /// The rate of the time stamp counter is the one that the processor states. The rate of the timer follows from the
    /// stated rate and from the ratio of the two rates, which this reference has measured. Chosen if no measured rate
    /// agrees with the stated rate or with another measured rate.
    Stated(S),
    /// This reference has measured the rates. Other references have measured other rates, no two of them agree, and the
    /// processor states no rate.
    Disputed(S),
}

/// Chooses among the rates that different references have measured, and the rate of the time stamp counter that the
/// processor states (CPUID leaves 0x15 and 0x16). The references are in the order of preference.
///
/// Looks at one measurement after the other. If a measurement agrees with the stated rate, chooses this measurement. If
/// it agrees with an earlier one, chooses the earlier one. Measurements after that are not made. A measurement that
/// agrees with nothing may be wrong, and so may the stated rate. So if no measurement agrees with anything, chooses the
/// stated rate, and if the processor states none, the first measurement. A single measurement, without a stated rate,
/// is chosen as it is.
///
/// Returns `None` if there is no measurement. Uses at most the first [`MAX_REFERENCES`] measurements.
pub fn choose<S>(
    measurements: impl IntoIterator<Item = (S, Rates)>,
    stated_hz: Option<u64>,
) -> Option<(Source<S>, Rates)> {
    let stated_hz = stated_hz.filter(|&hz| hz != 0);
    let mut measured: [Option<(S, Rates)>; MAX_REFERENCES] = [const { None }; MAX_REFERENCES];
    for (slot, (source, rates)) in (0..MAX_REFERENCES).zip(measurements) {
        let hz = rates.ticks_hz();
        if stated_hz.is_some_and(|stated_hz| do_agree(hz, stated_hz)) {
            return Some((Source::Measured(source), rates));
        }
        let agrees = |earlier: &&mut Option<(S, Rates)>| {
            earlier.as_ref().is_some_and(|(_, earlier)| do_agree(hz, earlier.ticks_hz()))
        };
        if let Some((source, rates)) = measured.iter_mut().find(agrees).and_then(Option::take) {
            return Some((Source::Measured(source), rates));
        }
        measured[slot] = Some((source, rates));
    }
    let is_only_one = measured.iter().flatten().count() == 1;
    let (source, rates) = measured.into_iter().flatten().next()?;
    let Some(stated_hz) = stated_hz else {
        let source = if is_only_one { Source::Measured(source) } else { Source::Disputed(source) };
        return Some((source, rates));
    };
    let ns = u128::from(rates.ticks) * NS_PER_SECOND / u128::from(stated_hz);
    let ns = u64::try_from(ns).unwrap_or(u64::MAX).max(1);
    Some((Source::Stated(source), Rates { ns, ..rates }))
}

/// Whether two rates differ by at most one per cent of the lower rate.
fn do_agree(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one.min(other) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated machine. Its counters have exact rates, and its host sometimes pauses it.
    struct Model {
        /// The time in femtoseconds.
        now: u128,
        reference: Reference,
        tsc_hz: u128,
        timer_hz: u128,
        /// The time at which the timer was started, in femtoseconds.
        timer_start: u128,
        /// Returns how long the machine is paused before the read with this number, in femtoseconds.
        pause: fn(u32) -> u128,
        reads: u32,
        /// How long a read takes, in femtoseconds.
        read_time: u128,
    }

    const MICROSECOND: u128 = 1_000_000_000;
    const MILLISECOND: u128 = 1000 * MICROSECOND;
    const SECOND: u128 = 1000 * MILLISECOND;

    impl Model {
        fn new(reference: Reference, pause: fn(u32) -> u128) -> Self {
            Self {
                now: 7 * SECOND,
                reference,
                tsc_hz: 2_600_000_000,
                timer_hz: 1_000_000_000,
                timer_start: 0,
                pause,
                reads: 0,
                read_time: 20 * MICROSECOND,
            }
        }
    }

    impl Clocks for Model {
        fn start_timer(&mut self) {
            self.timer_start = self.now;
        }

        #[expect(clippy::cast_possible_truncation, reason = "counters wrap")]
        fn read(&mut self) -> Reading {
            self.reads += 1;
            self.now += self.read_time + (self.pause)(self.reads);
            let counts = (self.now - self.timer_start) * self.timer_hz / SECOND;
            Reading {
                reference: (self.now / u128::from(self.reference.femtoseconds)) as u32
                    & ((1_u64 << self.reference.bits) - 1) as u32,
                time_stamp: (self.now * self.tsc_hz / SECOND) as u64,
                timer: u32::MAX.saturating_sub(u32::try_from(counts).unwrap_or(u32::MAX)),
            }
        }
    }

    /// Checks that the rates are those of the model, within one part in a thousand.
    fn assert_right(rates: Rates) {
        for (value, hz) in [(rates.ticks, 2_600_000_000_u64), (rates.counts, 1_000_000_000)] {
            let measured = u128::from(value) * 1_000_000_000 / u128::from(rates.ns);
            assert!(measured.abs_diff(hz.into()) < u128::from(hz) / 1000, "{measured} Hz instead of {hz}: {rates:?}");
        }
    }

    const REFERENCES: [Reference; 3] = [Reference::PIT, Reference::PM_TIMER, Reference::hpet(10_000_000)];

    #[test]
    fn rates_are_measured_without_pauses() {
        for reference in REFERENCES {
            assert_right(measure(reference, &mut Model::new(reference, |_| 0), 10_000_000).unwrap());
        }
    }

    #[test]
    fn pauses_in_which_the_reference_wraps_do_not_count() {
        for reference in REFERENCES {
            for pause in [
                |read| if read == 100 { 55 * MILLISECOND } else { 0 },
                |read| if read % 10 == 0 { 60 * MILLISECOND } else { 0 },
                // This pause is in the first interval, when it is not yet known how short an interval can be.
                |read| if read == 2 { 70 * MILLISECOND } else { 0 },
                |read| if read % 3 == 0 { 4 * SECOND } else { 0 },
                // The timer counts for only 4.29 s, so it stops during these pauses.
                |read| if read % 100 == 50 { 20 * SECOND } else { 0 },
            ] {
                let mut model = Model::new(reference, pause);
                let measured = measure(reference, &mut model, 10_000_000);
                assert_right(
                    measured.unwrap_or_else(|failure| panic!("{reference:?}, {} reads: {failure}", model.reads)),
                );
            }
        }
    }

    #[test]
    fn reference_that_may_wrap_in_every_interval_is_refused() {
        let measured = measure(Reference::PIT, &mut Model::new(Reference::PIT, |_| 7 * MILLISECOND), 10_000_000);
        assert_eq!(measured, Err(Failure::TooManyPauses));
    }

    #[test]
    fn reference_that_stands_still_is_refused() {
        for reference in REFERENCES {
            let mut model = Model::new(reference, |_| 0);
            model.reference.femtoseconds = u64::MAX;
            assert_eq!(measure(reference, &mut model, 10_000_000), Err(Failure::StandsStill));
        }
    }

    #[test]
    fn counters_that_stand_still_are_reported() {
        for (tsc_hz, timer_hz) in [(0, 1_000_000_000), (2_600_000_000, 0)] {
            let mut model = Model { tsc_hz, timer_hz, ..Model::new(Reference::PIT, |_| 0) };
            assert_eq!(measure(Reference::PIT, &mut model, 10_000_000), Err(Failure::NothingToMeasure));
        }
    }

    #[test]
    fn random_counters_end_the_measurement() {
        struct Noise(fastrand::Rng);
        impl Clocks for Noise {
            fn start_timer(&mut self) {}

            fn read(&mut self) -> Reading {
                Reading { reference: self.0.u32(..), time_stamp: self.0.u64(..), timer: self.0.u32(..) }
            }
        }
        for seed in 0..20 {
            for reference in REFERENCES {
                // Any result is accepted. The test only checks that `measure` returns and does not panic.
                let _ = measure(reference, &mut Noise(fastrand::Rng::with_seed(seed)), 10_000_000);
            }
        }
    }

    #[test]
    fn measurement_is_chosen_that_the_processor_or_another_one_confirms() {
        let rates = |ns| Rates { ns, ticks: 26_000_000, counts: 10_000_000 };
        let (right, inexact, wrong, other) = (rates(10_000_000), rates(10_040_000), rates(2_000_000), rates(3_000_000));
        let stated = Some(2_600_000_000);
        let choose = |measured: &[Rates], stated| choose(measured.iter().copied().enumerate(), stated);
        assert_eq!(choose(&[], stated), None);
        assert_eq!(choose(&[inexact, right], stated), Some((Source::Measured(0), inexact)));
        assert_eq!(choose(&[wrong, inexact], stated), Some((Source::Measured(1), inexact)));
        // Two references agree, so the rate that the processor states is wrong.
        assert_eq!(choose(&[wrong, wrong], stated), Some((Source::Measured(0), wrong)));
        assert_eq!(choose(&[other, wrong, wrong], stated), Some((Source::Measured(1), wrong)));
        assert_eq!(choose(&[wrong, other], stated), Some((Source::Stated(0), right)));
    }

    #[test]
    fn measurement_without_a_stated_rate_needs_another_one_that_confirms_it() {
        let rates = |ns| Rates { ns, ticks: 26_000_000, counts: 10_000_000 };
        let (right, inexact, wrong, other) = (rates(10_000_000), rates(10_040_000), rates(2_000_000), rates(3_000_000));
        for stated in [None, Some(0)] {
            let choose = |measured: &[Rates]| choose(measured.iter().copied().enumerate(), stated);
            assert_eq!(choose(&[]), None);
            assert_eq!(choose(&[right]), Some((Source::Measured(0), right)));
            // The first reference is preferred if others agree with it.
            assert_eq!(choose(&[right, inexact]), Some((Source::Measured(0), right)));
            assert_eq!(choose(&[right, wrong, inexact]), Some((Source::Measured(0), right)));
            assert_eq!(choose(&[wrong, right, inexact]), Some((Source::Measured(1), right)));
            // Nothing shows which of them is right.
            assert_eq!(choose(&[wrong, right]), Some((Source::Disputed(0), wrong)));
            assert_eq!(choose(&[wrong, right, other]), Some((Source::Disputed(0), wrong)));
        }
    }

    #[test]
    fn measurements_that_are_not_needed_are_not_made() {
        let right = Rates { ns: 10_000_000, ticks: 26_000_000, counts: 10_000_000 };
        for (stated, needed) in [(Some(2_600_000_000), 1), (None, 2)] {
            let mut made = 0;
            let measurements = core::iter::repeat_with(|| {
                made += 1;
                ((), right)
            });
            assert_eq!(choose(measurements, stated), Some((Source::Measured(()), right)));
            assert_eq!(made, needed);
        }
    }
}
