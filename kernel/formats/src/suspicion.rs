//! Decides when the watchdog reports a CPU. This is the state machine of one suspicion. It needs no hardware, so it is
//! tested on the host.
//!
//! ```text
//!              off for LIMIT: ask          confirmed ANSWERS times: report
//!   ┌───────┐ ───────────────▶ ┌───────┐ ──────────────────────────────▶ ┌──────────┐
//!   │ quiet │                  │ asked │ ─┐ confirmed: ask again         │ reported │
//!   └───────┘ ◀─────────────── └───────┘ ◀┘                              └──────────┘
//!       ▲        denied, or on again                                          │
//!       └─────────────────────────────────────────────────────────────────────┘ on again: a recovery
//! ```
//!
//! Each CPU has two suspicions: that interrupts are off for too long, and that preemption is off for too long. In the
//! picture, "off" and "on" refer to interrupts in the first suspicion, and to preemption in the second.
//!
//! At each check the watchdog reads a number, the *mark*: the number of interrupts that the CPU has taken, or the time
//! of the first tick that found preemption off. If the mark has changed, interrupts (or preemption) were on at some
//! moment since the last check. If it has not changed, they were probably off. But the mark of a virtual CPU also stays
//! the same while the host does not run that CPU. So when the mark has not changed for [`LIMIT`], the watchdog asks the
//! CPU whether interrupts (or preemption) are off. At each later check that finds a confirmation, the watchdog asks
//! again. It reports the CPU after [`ANSWERS`] confirmations. A *prompt* confirmation counts as [`PROMPT_WEIGHT`]
//! confirmations.
//!
//! The many confirmations prevent false reports on a slow host. If the host stops the CPU for a long time at each
//! access to a device, the CPU answers about once per access, and makes progress between two answers. Such an answer is
//! usually late, so it counts once. If all answers in a critical section are late, and the section makes fewer than
//! [`ANSWERS`] accesses, the CPU is not reported.
//!
//! An answer is prompt if it comes within [`PROMPT`], which shows that the CPU was running when it was asked. While a
//! CPU is suspected, the checks are 50 ms apart. So the number of prompt answers shows roughly for how long the CPU has
//! really run with interrupts (or preemption) off. A CPU that is stuck is reported on every host, but later if it gets
//! a small share of the host's time.

/// For how long interrupts (or preemption) must be off before the CPU is suspected, in ns.
pub const LIMIT: u64 = 1_000_000_000;

/// How many times a CPU must confirm that interrupts (or preemption) are off before the watchdog reports it.
pub const ANSWERS: u32 = 32;

/// A prompt confirmation counts as this many confirmations.
pub const PROMPT_WEIGHT: u32 = 4;

/// The longest time from a request to an answer that is prompt, in ns. While the host runs a virtual CPU, that CPU
/// answers within microseconds. Otherwise the CPU waits for its next time slice of the host, which takes milliseconds.
pub const PROMPT: u64 = 1_000_000;

/// The answer of a suspected CPU to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Whether interrupts (or preemption) are off.
    pub is_off: bool,
    /// The time from the request to the answer, in ns.
    pub latency: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Quiet,
    Asked { confirmed: u32 },
    Reported,
}

/// The suspicion that one CPU has its interrupts, or its preemption, off for too long.
#[derive(Debug)]
pub struct Suspicion {
    mark: u64,
    since: u64,
    stage: Stage,
}

/// What the watchdog does next with a suspected CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ask the CPU whether interrupts (or preemption) are off.
    Ask {
        /// Whether this is the first request of this suspicion.
        is_first: bool,
    },
    /// Do nothing: the CPU has not answered yet, or has answered that interrupts (or preemption) are on.
    Wait,
    /// Report the CPU, and then call [`Suspicion::reported`].
    Report,
}

impl Suspicion {
    /// Returns the first state, in which the CPU is not suspected.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a part of a static, made in one place")]
    pub const fn new() -> Self {
        Self { mark: 0, since: 0, stage: Stage::Quiet }
    }

    /// Checks the CPU, and ends the suspicion if interrupts (or preemption) were on at any moment since the last
    /// check. They were on if `mark` differs from the mark of the last check, or if `is_on` is true.
    ///
    /// If they were on, they count as off only from `since` on: the time of this check, or of the first tick that found
    /// preemption off. (They may have been turned off earlier.) `u64::MAX` means that they are still on.
    ///
    /// If the suspicion ends after the CPU was reported, returns for how long interrupts (or preemption) were off.
    /// Otherwise returns `None`.
    pub fn check(&mut self, mark: u64, is_on: bool, since: u64, now: u64) -> Option<u64> {
        if mark == self.mark && !is_on {
            return None;
        }
        let was_off_for = self.off_for(now);
        let was_reported = self.stage == Stage::Reported;
        *self = Self { mark, since, stage: Stage::Quiet };
        was_reported.then_some(was_off_for)
    }

    /// Returns for how long interrupts (or preemption) have been off at `now`, according to the checks so far.
    #[must_use]
    pub fn off_for(&self, now: u64) -> u64 {
        now.saturating_sub(self.since)
    }

    /// Whether interrupts (or preemption) have been off for at least [`LIMIT`] and the CPU has not been reported.
    #[must_use]
    pub fn is_suspect(&self, now: u64) -> bool {
        self.off_for(now) >= LIMIT && self.stage != Stage::Reported
    }

    /// Returns the next step with a CPU that [is suspected](Self::is_suspect). `answer` is the CPU's answer to the last
    /// request; `None` means that the CPU has not answered.
    pub fn pursue(&mut self, answer: Option<Answer>, now: u64) -> Step {
        let Stage::Asked { confirmed } = self.stage else {
            self.stage = Stage::Asked { confirmed: 0 };
            return Step::Ask { is_first: true };
        };
        match answer {
            None => Step::Wait,
            Some(Answer { is_off: false, .. }) => {
                *self = Self { mark: self.mark, since: now, stage: Stage::Quiet };
                Step::Wait
            }
            Some(Answer { is_off: true, latency }) => {
                let confirmed = (confirmed + if latency <= PROMPT { PROMPT_WEIGHT } else { 1 }).min(ANSWERS);
                self.stage = Stage::Asked { confirmed };
                if confirmed < ANSWERS { Step::Ask { is_first: false } } else { Step::Report }
            }
        }
    }

    /// Records that the CPU has been reported.
    pub fn reported(&mut self) {
        self.stage = Stage::Reported;
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWERS, Answer, LIMIT, PROMPT, PROMPT_WEIGHT, Step, Suspicion};

    const OFF: Option<Answer> = Some(Answer { is_off: true, latency: PROMPT + 1 });
    const ON: Option<Answer> = Some(Answer { is_off: false, latency: PROMPT + 1 });

    /// Returns a suspicion of a CPU whose mark has been 1 since time 0, and which was asked at time `LIMIT`.
    fn asked() -> Suspicion {
        let mut suspicion = Suspicion::new();
        assert_eq!(suspicion.check(1, false, 0, 0), None);
        assert_eq!(suspicion.check(1, false, LIMIT, LIMIT), None);
        assert!(suspicion.is_suspect(LIMIT));
        assert_eq!(suspicion.pursue(None, LIMIT), Step::Ask { is_first: true });
        suspicion
    }

    fn reported() -> Suspicion {
        let mut suspicion = asked();
        for _ in 1..ANSWERS {
            assert_eq!(suspicion.pursue(OFF, LIMIT), Step::Ask { is_first: false });
        }
        assert_eq!(suspicion.pursue(OFF, LIMIT), Step::Report);
        suspicion.reported();
        suspicion
    }

    #[test]
    fn cpu_that_is_off_for_less_than_the_limit_is_not_suspect() {
        let mut suspicion = Suspicion::new();
        suspicion.check(1, false, 10, 10);
        assert!(!suspicion.is_suspect(LIMIT + 9));
        assert!(suspicion.is_suspect(LIMIT + 10));
    }

    #[test]
    fn cpu_whose_mark_changes_is_never_suspect() {
        let mut suspicion = Suspicion::new();
        for mark in 1..10 {
            let now = mark * LIMIT / 2;
            assert_eq!(suspicion.check(mark, false, now, now), None);
            assert!(!suspicion.is_suspect(now));
        }
    }

    #[test]
    fn cpu_that_is_on_is_not_suspect_though_its_mark_stays() {
        let mut suspicion = Suspicion::new();
        for now in [0, LIMIT, 2 * LIMIT, 3 * LIMIT] {
            suspicion.check(1, true, now, now);
            assert!(!suspicion.is_suspect(now));
        }
        suspicion.check(2, false, u64::MAX, 4 * LIMIT);
        assert!(!suspicion.is_suspect(9 * LIMIT));
    }

    #[test]
    fn cpu_that_confirms_often_enough_is_reported_once() {
        let suspicion = reported();
        assert!(!suspicion.is_suspect(9 * LIMIT));
    }

    #[test]
    fn report_that_could_not_be_made_is_due_again() {
        let mut suspicion = asked();
        for _ in 0..ANSWERS {
            suspicion.pursue(OFF, LIMIT);
        }
        assert!(suspicion.is_suspect(LIMIT));
        assert_eq!(suspicion.pursue(OFF, LIMIT), Step::Report);
    }

    #[test]
    fn cpu_that_does_not_answer_is_waited_for() {
        let mut suspicion = asked();
        for _ in 0..10 * ANSWERS {
            assert_eq!(suspicion.pursue(None, LIMIT), Step::Wait);
        }
        assert_eq!(suspicion.pursue(OFF, LIMIT), Step::Ask { is_first: false });
    }

    #[test]
    fn denial_ends_the_suspicion_and_its_count() {
        let mut suspicion = asked();
        suspicion.pursue(OFF, LIMIT);
        assert_eq!(suspicion.pursue(ON, LIMIT), Step::Wait);
        assert!(!suspicion.is_suspect(2 * LIMIT - 1));
        assert_eq!(suspicion.pursue(None, 2 * LIMIT), Step::Ask { is_first: true });
        for _ in 1..ANSWERS {
            assert_eq!(suspicion.pursue(OFF, 2 * LIMIT), Step::Ask { is_first: false });
        }
    }

    #[test]
    fn reported_cpu_that_goes_on_has_recovered() {
        let mut suspicion = reported();
        assert_eq!(suspicion.check(1, false, 2 * LIMIT, 2 * LIMIT), None);
        assert_eq!(suspicion.check(2, false, 3 * LIMIT, 3 * LIMIT), Some(3 * LIMIT));
        assert_eq!(suspicion.check(3, false, 4 * LIMIT, 4 * LIMIT), None);
    }

    #[test]
    fn asked_cpu_that_goes_on_has_no_recovery_to_tell() {
        let mut suspicion = asked();
        assert_eq!(suspicion.check(2, false, 2 * LIMIT, 2 * LIMIT), None);
        assert!(!suspicion.is_suspect(2 * LIMIT));
    }

    #[test]
    fn prompt_confirmation_counts_as_several() {
        let mut suspicion = asked();
        let prompt = Some(Answer { is_off: true, latency: PROMPT });
        for _ in 1..ANSWERS / PROMPT_WEIGHT {
            assert_eq!(suspicion.pursue(prompt, LIMIT), Step::Ask { is_first: false });
        }
        assert_eq!(suspicion.pursue(prompt, LIMIT), Step::Report);
    }

    #[test]
    fn late_denial_ends_the_suspicion() {
        let mut suspicion = asked();
        suspicion.pursue(Some(Answer { is_off: false, latency: 100 * PROMPT }), LIMIT);
        assert!(!suspicion.is_suspect(2 * LIMIT - 1));
    }

    const MS: u64 = 1_000_000;

    /// Returns the next pseudo-random number below `limit`.
    fn random(seed: &mut u64, limit: u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % limit
    }

    /// A virtual CPU that executes one critical section after another, with interrupts off. Between two sections it
    /// takes the interrupts that are pending. The host runs the CPU for a slice, and then not for a while, and so on.
    struct VirtualCpu {
        seed: u64,
        /// The length of a slice.
        slice: u64,
        /// The average time between two slices.
        pause: u64,
        /// The time that the CPU needs for a section. `u64::MAX` means for ever.
        section: u64,
        /// How much of the current section is left.
        left: u64,
        /// The number of sections so far.
        mark: u64,
        /// The start of the current or next slice.
        start: u64,
        /// The time until which the CPU has been simulated.
        now: u64,
        asked_at: Option<u64>,
        answer: Option<Answer>,
    }

    impl VirtualCpu {
        fn new(seed: u64, slice: u64, pause: u64, section: u64) -> Self {
            Self { seed, slice, pause, section, left: section, mark: 1, start: 0, now: 0, asked_at: None, answer: None }
        }

        /// Simulates the CPU until the time `to`.
        fn run_until(&mut self, to: u64) {
            while self.now.max(self.start) < to {
                self.now = self.now.max(self.start);
                if let Some(asked) = self.asked_at.take() {
                    self.answer = Some(Answer { is_off: true, latency: self.now - asked });
                }
                let end = self.start + self.slice;
                let run = end.min(to) - self.now;
                self.now += run;
                if run < self.left {
                    self.left -= if self.left == u64::MAX { 0 } else { run };
                } else {
                    self.left = self.section - (run - self.left) % self.section;
                    self.mark += 1;
                }
                if self.now == end {
                    self.start = end + self.pause / 2 + random(&mut self.seed, self.pause + 1);
                }
            }
        }

        /// Checks the CPU for a minute. Returns the time at which the CPU was reported, or `None` if it was not
        /// reported.
        fn reported_at(&mut self) -> Option<u64> {
            let mut suspicion = Suspicion::new();
            let mut now = 0;
            while now < 60 * LIMIT {
                self.run_until(now);
                suspicion.check(self.mark, false, now, now);
                let is_suspect = suspicion.is_suspect(now);
                if is_suspect {
                    match suspicion.pursue(self.answer.take(), now) {
                        Step::Report => return Some(now),
                        Step::Wait => {}
                        Step::Ask { .. } => self.asked_at = Some(now),
                    }
                }
                now += if is_suspect { 50 * MS } else { 500 * MS };
            }
            None
        }
    }

    #[test]
    fn cpu_that_the_host_hardly_runs_is_never_reported() {
        for seed in 0..200 {
            // A section takes 20 slices. Each slice ends with an access to a device, at which the CPU waits for the
            // virtual machine monitor.
            let mut waiting = VirtualCpu::new(seed, 2_000, 100 * MS, 20 * 2_000);
            assert_eq!(waiting.reported_at(), None, "seed {seed}");
            // The host is so busy that the CPU gets one slice in a second.
            let mut starved = VirtualCpu::new(seed, 4 * MS, 1000 * MS, 20 * MS);
            assert_eq!(starved.reported_at(), None, "seed {seed}");
        }
    }

    #[test]
    fn stuck_cpu_is_reported_on_every_host() {
        for seed in 0..200 {
            let alone = VirtualCpu::new(seed, 60 * LIMIT, 0, u64::MAX).reported_at();
            assert!(alone.is_some_and(|at| at < 2 * LIMIT), "seed {seed}: {alone:?}");
            // The CPU gets an eighth of the host's time.
            let shared = VirtualCpu::new(seed, 4 * MS, 28 * MS, u64::MAX).reported_at();
            assert!(shared.is_some_and(|at| at < 20 * LIMIT), "seed {seed}: {shared:?}");
        }
    }
}
