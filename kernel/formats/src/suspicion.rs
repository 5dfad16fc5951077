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
//! At each check the watchdog reads a number, the *mark*. If interrupts (or preemption) were on since the last check,
//! the mark has changed. But the mark of a virtual CPU also stays the same while the host does not run that CPU. So the
//! watchdog does not report a CPU until the CPU has confirmed several times, at later checks, that interrupts (or
//! preemption) are off. Such a report can still be wrong, but only if the host hardly runs the CPU between the
//! questions, and each question finds the CPU in another short critical section.

/// For how long interrupts (or preemption) must be off before the CPU is suspected, in ns.
pub const LIMIT: u64 = 1_000_000_000;

/// How often a CPU must confirm that interrupts (or preemption) are off before the watchdog reports it.
pub const ANSWERS: u32 = 4;

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

    /// Checks the CPU, and ends the suspicion if interrupts (or preemption) were on since the last check. They were on
    /// if `mark` differs from the mark of the last check, or if `is_on` is true.
    ///
    /// If they were on, `since` is the earliest time at which they may have been turned off again. `u64::MAX` means that
    /// they are still on.
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
    /// request: `Some(true)` means that interrupts (or preemption) are off, and `None` that the CPU has not answered.
    pub fn pursue(&mut self, answer: Option<bool>, now: u64) -> Step {
        let Stage::Asked { confirmed } = self.stage else {
            self.stage = Stage::Asked { confirmed: 0 };
            return Step::Ask { is_first: true };
        };
        match answer {
            None => Step::Wait,
            Some(false) => {
                *self = Self { mark: self.mark, since: now, stage: Stage::Quiet };
                Step::Wait
            }
            Some(true) => {
                let confirmed = (confirmed + 1).min(ANSWERS);
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
    use super::{ANSWERS, LIMIT, Step, Suspicion};

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
            assert_eq!(suspicion.pursue(Some(true), LIMIT), Step::Ask { is_first: false });
        }
        assert_eq!(suspicion.pursue(Some(true), LIMIT), Step::Report);
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
            suspicion.pursue(Some(true), LIMIT);
        }
        assert!(suspicion.is_suspect(LIMIT));
        assert_eq!(suspicion.pursue(Some(true), LIMIT), Step::Report);
    }

    #[test]
    fn cpu_that_does_not_answer_is_waited_for() {
        let mut suspicion = asked();
        for _ in 0..10 * ANSWERS {
            assert_eq!(suspicion.pursue(None, LIMIT), Step::Wait);
        }
        assert_eq!(suspicion.pursue(Some(true), LIMIT), Step::Ask { is_first: false });
    }

    #[test]
    fn denial_ends_the_suspicion_and_its_count() {
        let mut suspicion = asked();
        suspicion.pursue(Some(true), LIMIT);
        assert_eq!(suspicion.pursue(Some(false), LIMIT), Step::Wait);
        assert!(!suspicion.is_suspect(2 * LIMIT - 1));
        assert_eq!(suspicion.pursue(None, 2 * LIMIT), Step::Ask { is_first: true });
        for _ in 1..ANSWERS {
            assert_eq!(suspicion.pursue(Some(true), 2 * LIMIT), Step::Ask { is_first: false });
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
}
