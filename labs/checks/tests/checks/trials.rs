//! The tests of the tests: the trials that a student has written are run on models with a flaw.

use lab_puzzles::trial::{Trial, found, missed};
use lab_puzzles::trials::{calls, channels, picks, rings, signals, switches, ticks, wakes};

/// Checks that `trials` are few and small, and that they find the flaws of this group, which are those of `what`.
fn compare<T: Trial>(what: &str, trials: &[T], group: usize) {
    let most = T::FLAWS.concat().len();
    assert!(trials.len() <= most, "there are {} trials; {most} are enough, one for each flaw", trials.len());
    for trial in trials {
        assert!(trial.is_small(), "{} are allowed: {trial:?}", T::LIMIT);
    }
    let missed = missed(trials, T::FLAWS[group]);
    assert!(missed.is_empty(), "these flaws of {what} are not found: {missed:?}\n{}", found(trials));
}

mod of_switches {
    #[test]
    fn wrong_switches_are_found() {
        super::compare("a switch", super::switches::TRIALS, 0);
    }

    #[test]
    fn wrong_starts_are_found() {
        super::compare("a switch", super::switches::TRIALS, 1);
    }
}

mod of_rings {
    #[test]
    fn wrong_orders_are_found() {
        super::compare("a ring", super::rings::TRIALS, 0);
    }

    #[test]
    fn wrong_limits_are_found() {
        super::compare("a ring", super::rings::TRIALS, 1);
    }

    #[test]
    fn wrong_halves_are_found() {
        super::compare("a ring", super::rings::TRIALS, 2);
    }
}

mod of_picks {
    #[test]
    fn wrong_orders_are_found() {
        super::compare("a pick", super::picks::TRIALS, 0);
    }

    #[test]
    fn wrong_thieves_are_found() {
        super::compare("a pick", super::picks::TRIALS, 1);
    }
}

mod of_wakes {
    #[test]
    fn missing_fences_are_found() {
        super::compare("a wakeup", super::wakes::TRIALS, 0);
    }

    #[test]
    fn wrong_searches_are_found() {
        super::compare("a wakeup", super::wakes::TRIALS, 1);
    }

    #[test]
    fn wrong_wakers_are_found() {
        super::compare("a wakeup", super::wakes::TRIALS, 2);
    }
}

mod of_ticks {
    #[test]
    fn wrong_slices_are_found() {
        super::compare("a preemption", super::ticks::TRIALS, 0);
    }

    #[test]
    fn wrong_displacements_are_found() {
        super::compare("a preemption", super::ticks::TRIALS, 1);
    }
}

mod of_calls {
    #[test]
    fn wrong_handoffs_are_found() {
        super::compare("a system call", super::calls::TRIALS, 0);
    }

    #[test]
    fn wrong_retakes_are_found() {
        super::compare("a system call", super::calls::TRIALS, 1);
    }

    #[test]
    fn wrong_returns_are_found() {
        super::compare("a system call", super::calls::TRIALS, 2);
    }
}

mod of_channels {
    #[test]
    fn wrong_orders_are_found() {
        super::compare("a channel", super::channels::TRIALS, 0);
    }

    #[test]
    fn wrong_closes_are_found() {
        super::compare("a channel", super::channels::TRIALS, 1);
    }
}

mod of_signals {
    #[test]
    fn lost_raises_are_found() {
        super::compare("a signal", super::signals::TRIALS, 0);
    }

    #[test]
    fn wrong_limits_are_found() {
        super::compare("a signal", super::signals::TRIALS, 1);
    }
}
