//! The tests of the tests: the trials that a student has written are run on models with a flaw.

use lab_puzzles::trial::{Trial, found, missed};
use lab_puzzles::{calls, channels, picks, rings, signals, switches, ticks, trials, wakes};

/// Checks that `trials` are few and small, and that they find the flaws of this group, which are those of `what`. Each call
/// names the type of the trials, so that a student cannot hand in trials of a type of his own, which find what they like.
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
    use super::{compare, switches, trials};

    #[test]
    fn wrong_switches_are_found() {
        compare::<&[switches::Step]>("a switch", trials::switches::TRIALS, 0);
    }

    #[test]
    fn wrong_starts_are_found() {
        compare::<&[switches::Step]>("a switch", trials::switches::TRIALS, 1);
    }
}

mod of_rings {
    use super::{compare, rings, trials};

    #[test]
    fn wrong_orders_are_found() {
        compare::<&[rings::Step]>("a ring", trials::rings::TRIALS, 0);
    }

    #[test]
    fn wrong_limits_are_found() {
        compare::<&[rings::Step]>("a ring", trials::rings::TRIALS, 1);
    }

    #[test]
    fn wrong_halves_are_found() {
        compare::<&[rings::Step]>("a ring", trials::rings::TRIALS, 2);
    }
}

mod of_picks {
    use super::{compare, picks, trials};

    #[test]
    fn wrong_orders_are_found() {
        compare::<&[picks::Step]>("a pick", trials::picks::TRIALS, 0);
    }

    #[test]
    fn wrong_thieves_are_found() {
        compare::<&[picks::Step]>("a pick", trials::picks::TRIALS, 1);
    }
}

mod of_wakes {
    use super::{compare, trials, wakes};

    #[test]
    fn missing_fences_are_found() {
        compare::<(wakes::Scene, &[wakes::M])>("a wakeup", trials::wakes::TRIALS, 0);
    }

    #[test]
    fn wrong_searches_are_found() {
        compare::<(wakes::Scene, &[wakes::M])>("a wakeup", trials::wakes::TRIALS, 1);
    }

    #[test]
    fn wrong_wakers_are_found() {
        compare::<(wakes::Scene, &[wakes::M])>("a wakeup", trials::wakes::TRIALS, 2);
    }
}

mod of_ticks {
    use super::{compare, ticks, trials};

    #[test]
    fn wrong_slices_are_found() {
        compare::<&[ticks::Step]>("a preemption", trials::ticks::TRIALS, 0);
    }

    #[test]
    fn wrong_displacements_are_found() {
        compare::<&[ticks::Step]>("a preemption", trials::ticks::TRIALS, 1);
    }
}

mod of_calls {
    use super::{calls, compare, trials};

    #[test]
    fn wrong_handoffs_are_found() {
        compare::<&[calls::Step]>("a system call", trials::calls::TRIALS, 0);
    }

    #[test]
    fn wrong_retakes_are_found() {
        compare::<&[calls::Step]>("a system call", trials::calls::TRIALS, 1);
    }

    #[test]
    fn wrong_returns_are_found() {
        compare::<&[calls::Step]>("a system call", trials::calls::TRIALS, 2);
    }
}

mod of_channels {
    use super::{channels, compare, trials};

    #[test]
    fn wrong_orders_are_found() {
        compare::<(usize, &[channels::Step])>("a channel", trials::channels::TRIALS, 0);
    }

    #[test]
    fn wrong_closes_are_found() {
        compare::<(usize, &[channels::Step])>("a channel", trials::channels::TRIALS, 1);
    }
}

mod of_signals {
    use super::{compare, signals, trials};

    #[test]
    fn lost_raises_are_found() {
        compare::<&[signals::Party]>("a signal", trials::signals::TRIALS, 0);
    }

    #[test]
    fn wrong_limits_are_found() {
        compare::<&[signals::Party]>("a signal", trials::signals::TRIALS, 1);
    }
}
