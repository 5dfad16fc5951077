//! Lab 2, the tests of the tests: the sequences of steps that a student has written are tried on wrong rings.

use lab_puzzles::rings::{Flaw, finds};
use lab_puzzles::trials::TRIALS;

/// How long a sequence may be: a long one finds much, but shows little.
const LONGEST: usize = 7;

fn compare(flaws: &[Flaw]) {
    for steps in TRIALS {
        assert!(
            steps.len() <= LONGEST,
            "a sequence has {} steps; at most {LONGEST} are allowed: {steps:?}",
            steps.len()
        );
    }
    let missed: Vec<&Flaw> = flaws.iter().filter(|flaw| !TRIALS.iter().any(|steps| finds(steps, **flaw))).collect();
    assert!(missed.is_empty(), "no sequence finds these flaws of a ring: {missed:?}");
}

#[test]
fn wrong_orders_are_found() {
    compare(&[Flaw::PopsTheNewest, Flaw::RunnextComesLast, Flaw::RunnextGetsASlice, Flaw::ForgetsWhoWasNext]);
}

#[test]
fn wrong_limits_are_found() {
    compare(&[Flaw::IsFullTooEarly, Flaw::OverwritesTheOldest, Flaw::AllOrNothing, Flaw::DrainsAlways]);
}

#[test]
fn wrong_halves_are_found() {
    compare(&[Flaw::DrainsTheNewerHalf, Flaw::RoundsDown, Flaw::StealsTheNewest, Flaw::StealsRunnext]);
}
