//! The tests of the tests: the trials that a student has written are run on models with a flaw.

use lab_puzzles::trial::{Trial, found, missed};

/// Checks that `trials` are few and small, and that they find the flaws in this group, which are flaws of `what`. The tests
/// below name the type of the trials. Otherwise, a student could hand in a type of his own, whose `finds` is always true.
fn compare<T: Trial>(what: &str, trials: &[T], group: usize) {
    let most = T::FLAWS.concat().len();
    assert!(trials.len() <= most, "there are {} trials; {most} are enough, one for each flaw", trials.len());
    for trial in trials {
        assert!(trial.is_small(), "{} are allowed: {trial:?}", T::LIMIT);
    }
    let missed = missed(trials, T::FLAWS[group]);
    assert!(missed.is_empty(), "these flaws of {what} are not found: {missed:?}\n{}", found(trials));
}

/// The tests of the trials in `lab_puzzles::trials`, in a module for each mechanism: a test for each group of its flaws.
macro_rules! tests {
    ($($module:ident, $what:literal, $trials:ident: $trial:ty { $($test:ident: $group:literal,)* })*) => {$(
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::compare::<$trial>($what, lab_puzzles::trials::$trials::TRIALS, $group);
                }
            )*
        }
    )*};
}

tests! {
    of_switches, "a switch", switches: &[lab_puzzles::switches::Step] {
        wrong_switches_are_found: 0,
        wrong_starts_are_found: 1,
    }
    of_rings, "a ring", rings: &[lab_puzzles::rings::Step] {
        wrong_orders_are_found: 0,
        wrong_limits_are_found: 1,
        wrong_halves_are_found: 2,
    }
    of_picks, "a pick", picks: &[lab_puzzles::picks::Step] {
        wrong_orders_are_found: 0,
        wrong_thieves_are_found: 1,
    }
    of_wakes, "a wakeup", wakes: (lab_puzzles::wakes::Scene, &[lab_puzzles::wakes::M]) {
        missing_fences_are_found: 0,
        wrong_searches_are_found: 1,
        wrong_wakers_are_found: 2,
    }
    of_ticks, "a preemption", ticks: &[lab_puzzles::ticks::Step] {
        wrong_slices_are_found: 0,
        wrong_displacements_are_found: 1,
    }
    of_calls, "a system call", calls: &[lab_puzzles::calls::Step] {
        wrong_handoffs_are_found: 0,
        wrong_retakes_are_found: 1,
        wrong_returns_are_found: 2,
    }
    of_channels, "a channel", channels: (usize, &[lab_puzzles::channels::Step]) {
        wrong_orders_are_found: 0,
        wrong_closes_are_found: 1,
    }
    of_signals, "a signal", signals: &[lab_puzzles::signals::Party] {
        lost_raises_are_found: 0,
        wrong_limits_are_found: 1,
    }
}
