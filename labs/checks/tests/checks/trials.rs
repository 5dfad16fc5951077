//! Labs 2 and 7, the tests of the tests: the sequences of steps that a student has written are tried on wrong rings, and on
//! wrong channels.

use lab_puzzles::channel_trials::CHANNEL_TRIALS;
use lab_puzzles::channels;
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

fn compare_channels(flaws: &[channels::Flaw]) {
    for (capacity, steps) in CHANNEL_TRIALS {
        assert!(*capacity <= 2 && steps.len() <= 6, "at most 6 steps, on a channel of 0 to 2, are allowed: {steps:?}");
    }
    let is_found = |flaw: &&channels::Flaw| {
        CHANNEL_TRIALS.iter().any(|(capacity, steps)| channels::finds(*capacity, steps, **flaw))
    };
    let missed: Vec<_> = flaws.iter().filter(|flaw| !is_found(flaw)).collect();
    assert!(missed.is_empty(), "no sequence finds these flaws of a channel: {missed:?}");
}

#[test]
fn channels_with_a_wrong_order_are_found() {
    use channels::Flaw::{
        LeavesOneEntryFree, OvertakesTheBuffer, PrefersTheBuffer, ServesTheLastReceiver, ServesTheLastSender,
        TakesTheNewest,
    };
    compare_channels(&[LeavesOneEntryFree, TakesTheNewest, OvertakesTheBuffer]);
    compare_channels(&[ServesTheLastSender, ServesTheLastReceiver, PrefersTheBuffer]);
}

#[test]
fn channels_with_a_wrong_close_are_found() {
    use channels::Flaw::{EmptiesTheBuffer, LeavesSendersWaiting, SendsOnAClosedChannel};
    compare_channels(&[EmptiesTheBuffer, LeavesSendersWaiting, SendsOnAClosedChannel]);
}
