//! The tests of the tests: the trials that a student has written are run on models with a flaw.

use lab_puzzles::trial::{Trial, found, missed};
use lab_puzzles::trials::{calls, channels, picks, rings, signals, switches, ticks, wakes};

/// Checks that `trials` are few and small, and that they find `flaws`, which are those of `what`.
fn compare<T: Trial>(what: &str, trials: &[T], flaws: &[T::Flaw]) {
    let most = T::FLAWS.len();
    assert!(trials.len() <= most, "there are {} trials; {most} are enough, one for each flaw", trials.len());
    for trial in trials {
        assert!(trial.is_small(), "{} are allowed: {trial:?}", T::LIMIT);
    }
    let missed = missed(trials, flaws);
    assert!(missed.is_empty(), "these flaws of {what} are not found: {missed:?}\n{}", found(trials));
}

mod of_switches {
    use lab_puzzles::switches::Flaw;

    fn compare(flaws: &[Flaw]) {
        super::compare("a switch", super::switches::TRIALS, flaws);
    }

    #[test]
    fn wrong_switches_are_found() {
        compare(&[
            Flaw::ForgetsRbx,
            Flaw::ForgetsRbp,
            Flaw::PopsInTheOrderOfThePushes,
            Flaw::StoresTheStackTooEarly,
            Flaw::StoresTheStackTooLate,
            Flaw::KeepsTheStack,
        ]);
    }

    #[test]
    fn wrong_starts_are_found() {
        compare(&[Flaw::UsesRdi, Flaw::EntersWithoutAReturnAddress, Flaw::KeepsTheFramePointer, Flaw::TrustsRcx]);
    }
}

mod of_rings {
    use lab_puzzles::rings::Flaw;

    fn compare(flaws: &[Flaw]) {
        super::compare("a ring", super::rings::TRIALS, flaws);
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
}

mod of_picks {
    use lab_puzzles::picks::Flaw;

    fn compare(flaws: &[Flaw]) {
        super::compare("a pick", super::picks::TRIALS, flaws);
    }

    #[test]
    fn wrong_orders_are_found() {
        compare(&[
            Flaw::UrgentComesLast,
            Flaw::NeverTakesATurn,
            Flaw::TakesEveryTurn,
            Flaw::UrgentTakesTheTurn,
            Flaw::GivesUpAtAnEmptyTurn,
        ]);
    }

    #[test]
    fn wrong_thieves_are_found() {
        compare(&[
            Flaw::StealsOne,
            Flaw::StealsAll,
            Flaw::RoundsDown,
            Flaw::LeavesTheLastOnes,
            Flaw::VisitsOnlyTheNext,
            Flaw::RobsTheFirst,
        ]);
    }
}

mod of_wakes {
    use lab_puzzles::wakes::Flaw;

    fn compare(flaws: &[Flaw]) {
        super::compare("a wakeup", super::wakes::TRIALS, flaws);
    }

    #[test]
    fn missing_fences_are_found() {
        compare(&[Flaw::SubmitsWithoutAFence, Flaw::FenceComesTooEarly, Flaw::IdlesWithoutAFence]);
    }

    #[test]
    fn wrong_searches_are_found() {
        compare(&[
            Flaw::NeverLooksAgain,
            Flaw::LooksBeforeItIsIdle,
            Flaw::CountsUntilItSleeps,
            Flaw::AssignedLooksNoMore,
        ]);
    }

    #[test]
    fn wrong_wakers_are_found() {
        compare(&[
            Flaw::FinderWakesNobody,
            Flaw::FinderWakesTooEarly,
            Flaw::WakerGivesUp,
            Flaw::WakerStaysCounted,
            Flaw::IgnoresTheAnswer,
            Flaw::ReadiesEveryG,
            Flaw::IsKnownTooEarly,
        ]);
    }
}

mod of_ticks {
    use lab_puzzles::ticks::Flaw;

    fn compare(flaws: &[Flaw]) {
        super::compare("a preemption", super::ticks::TRIALS, flaws);
    }

    #[test]
    fn wrong_slices_are_found() {
        compare(&[
            Flaw::SlicesNeverEnd,
            Flaw::EndsANewSlice,
            Flaw::GivesWayTooLate,
            Flaw::FiresTooRarely,
            Flaw::RunnextBeginsASlice,
            Flaw::GoesToRunnext,
            Flaw::GoesToTheUrgentQueue,
        ]);
    }

    #[test]
    fn wrong_displacements_are_found() {
        compare(&[
            Flaw::UrgentGoesToTheGlobalQueue,
            Flaw::UrgentWaitsForTheSlice,
            Flaw::HasNoRightToGoOn,
            Flaw::ForgetsTheTimer,
            Flaw::DisplacedGoesLast,
            Flaw::IgnoresTheWorld,
        ]);
    }
}

mod of_calls {
    use lab_puzzles::calls::Flaw;

    fn compare(flaws: &[Flaw]) {
        super::compare("a system call", super::calls::TRIALS, flaws);
    }

    #[test]
    fn wrong_handoffs_are_found() {
        compare(&[
            Flaw::KeepsTheP,
            Flaw::BlocksWithoutASuccessor,
            Flaw::MakesAnMForEachCall,
            Flaw::PutsThePAside,
            Flaw::WakesAnMForNothing,
            Flaw::NeverLooksAgain,
        ]);
    }

    #[test]
    fn wrong_retakes_are_found() {
        compare(&[
            Flaw::RetakesAtOnce,
            Flaw::NeverNotesTheCall,
            Flaw::RetakesForNothing,
            Flaw::KeepsTheCount,
            Flaw::TakesWithoutAClaim,
        ]);
    }

    #[test]
    fn wrong_returns_are_found() {
        compare(&[Flaw::ReturnsWithoutAsking, Flaw::TakesAnyIdleP, Flaw::StaysCounted]);
    }
}

mod of_channels {
    use lab_puzzles::channels::Flaw;

    fn compare(flaws: &[Flaw]) {
        super::compare("a channel", super::channels::TRIALS, flaws);
    }

    #[test]
    fn wrong_orders_are_found() {
        compare(&[
            Flaw::LeavesOneEntryFree,
            Flaw::TakesTheNewest,
            Flaw::OvertakesTheBuffer,
            Flaw::ServesTheLastSender,
            Flaw::ServesTheLastReceiver,
            Flaw::PrefersTheBuffer,
        ]);
    }

    #[test]
    fn wrong_closes_are_found() {
        compare(&[Flaw::EmptiesTheBuffer, Flaw::LeavesSendersWaiting, Flaw::SendsOnAClosedChannel]);
    }
}

mod of_signals {
    use lab_puzzles::signals::Flaw;

    fn compare(flaws: &[Flaw]) {
        super::compare("a signal", super::signals::TRIALS, flaws);
    }

    #[test]
    fn lost_raises_are_found() {
        compare(&[
            Flaw::DropsAnEarlyRaise,
            Flaw::DropsARaiseWhileParking,
            Flaw::TakesParkingForWaiting,
            Flaw::OverwritesQueued,
            Flaw::TellsNobody,
            Flaw::CommitOverwritesARaise,
            Flaw::EndDropsALateRaise,
        ]);
    }

    #[test]
    fn wrong_limits_are_found() {
        compare(&[Flaw::CommitForgetsTheLimit, Flaw::ArmsNoLimit, Flaw::ForgetsTheGeneration, Flaw::EndLeavesItsMark]);
    }
}
