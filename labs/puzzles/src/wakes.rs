//! Wrong wakeups, on which the tests of students are tried: what Ms do, act by act, when one of them publishes work and another
//! one goes idle, and what may be wrong with it. A schedule finds a flaw if the Ms, with the flaw, end in a state with a
//! [`Harm`].
//!
//! A store stays in the buffer of its CPU at first, where others do not see it. It becomes visible when the M executes
//! a fence or a locked instruction, or takes a lock. An M that has done its last act, and still has a store in its
//! buffer, has one act more: the store becomes visible.
//!
//! After the last step of a schedule, M1 does the rest of its acts, then M2, then M3.

use alloc::vec;
use alloc::vec::Vec;

mod state;

use crate::trial::Trial;
use crate::wakes::state::State;

/// Who acts next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum M {
    /// The first M, which publishes work, or ends a wait.
    M1,
    /// The second one, which goes idle, or has found work, or parks its G.
    M2,
    /// The third one, if the scene has one.
    M3,
}

/// What the Ms are doing. The function `program`, below, has the acts of each of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scene {
    /// M1 publishes a G. M2, which ran Gs until now, goes idle.
    Idles,
    /// M1 publishes a G. M2, which spins and has found nothing, goes idle.
    GivesUp,
    /// M1 publishes a second G. M2, which spins, finds the first one. A P is idle.
    Finds,
    /// M1 publishes a G. M2, which spins, goes idle. M3 hands its P, with a G that M2 is to run, to M2, if that is
    /// idle.
    Assigns,
    /// M1 wakes an M, because a P is idle. M2 returns from a system call, takes that P, and publishes a G. M3 goes
    /// idle.
    Wakes,
    /// M1 has the answer that a G waits for. M2 parks this G.
    Parks,
}

/// An act of an M: what nobody can interrupt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Act {
    /// Stores a G in a queue.
    Publish,
    /// Executes a full fence.
    Fence,
    /// Loads the number of idle Ps and that of spinning Ms. If a P is idle and no M spins, assigns the P to an idle M,
    /// which spins.
    WakeIfNeeded,
    /// Under the lock: puts the M's P on the idle list.
    ListP,
    /// A locked instruction: the M no longer counts as spinning.
    StopCounting,
    /// Loads the queues. If there is a G, the M takes an idle P and spins again; otherwise it sleeps. If it was
    /// assigned a P in the meantime, it has that one, and wakes an M for a G that it sees.
    LookAgain,
    /// A locked instruction: takes a G from a queue, in order to run it.
    TakeG,
    /// Under the lock: assigns a P to M2, if that is on the idle list.
    Assign,
    /// Counts the M as spinning, if a P is idle and no M spins. Otherwise the M is done.
    Count,
    /// Under the lock: assigns an idle P to an idle M, which spins in place of this one, which is then done.
    PassOn,
    /// Under the lock: takes an idle P. If there is none, the M is done.
    TakeP,
    /// Saves the context of the G, which leaves its stack.
    Save,
    /// Makes the G known to whoever has the answer. If the answer is there already, the G is readied.
    Commit,
    /// Readies the G if it is known; otherwise leaves the answer for it.
    Answer,
}

/// What may be wrong with the acts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// M1 publishes its G without a fence after that.
    SubmitsWithoutAFence,
    /// M1 executes the fence before it publishes its G.
    FenceComesTooEarly,
    /// An M that goes idle has no fence.
    IdlesWithoutAFence,
    /// An M that goes idle does not look again.
    NeverLooksAgain,
    /// An M that goes idle looks again, and then puts its P on the list.
    LooksBeforeItIsIdle,
    /// A spinning M that goes idle still counts as spinning while it looks again.
    CountsUntilItSleeps,
    /// An M that is assigned a P before it has looked again does not look again.
    AssignedLooksNoMore,
    /// A spinning M that finds a G wakes nobody.
    FinderWakesNobody,
    /// A spinning M that finds a G wakes somebody, and then stops counting.
    FinderWakesTooEarly,
    /// A waker that finds no idle P stops counting as spinning, and does not begin again.
    WakerGivesUp,
    /// A waker that finds no idle P stays counted as spinning.
    WakerStaysCounted,
    /// The G does not go on if its answer comes while it parks.
    IgnoresTheAnswer,
    /// Each G that parks is readied.
    ReadiesEveryG,
    /// The G is known before its context is saved.
    IsKnownTooEarly,
}

/// What is wrong when all Ms have done their acts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Harm {
    /// A G is in a queue, a P is idle, and no M searches.
    Stranded,
    /// More Ms count as spinning than search, so submitters rely on an M that does not search.
    CountsNobody,
    /// The G waits, although its answer is there.
    WaitsForEver,
    /// The G was readied twice.
    RunsTwice,
    /// The G runs, although its context is not saved.
    RunsWithoutItsContext,
}

/// What an M does in a scene, act by act, perhaps with a flaw.
fn program(scene: Scene, who: M, flaw: Option<Flaw>) -> Vec<Act> {
    use Act::{
        Answer, Assign, Commit, Count, Fence, ListP, LookAgain, PassOn, Publish, Save, StopCounting, TakeG, TakeP,
    };
    let wake = Act::WakeIfNeeded;
    let submit = match flaw {
        Some(Flaw::SubmitsWithoutAFence) => vec![Publish, wake],
        Some(Flaw::FenceComesTooEarly) => vec![Fence, Publish, wake],
        _ => vec![Publish, Fence, wake],
    };
    let go_idle = match flaw {
        Some(Flaw::IdlesWithoutAFence) => vec![ListP, LookAgain],
        Some(Flaw::NeverLooksAgain) => vec![ListP],
        Some(Flaw::LooksBeforeItIsIdle) => vec![LookAgain, ListP, Fence],
        _ => vec![ListP, Fence, LookAgain],
    };
    match (scene, who) {
        (Scene::Parks, M::M1) => vec![Answer],
        (Scene::Parks, M::M2) if flaw == Some(Flaw::IsKnownTooEarly) => vec![Commit, Save],
        (Scene::Parks, M::M2) => vec![Save, Commit],
        (Scene::Wakes, M::M1) if flaw == Some(Flaw::WakerGivesUp) => vec![Count, PassOn, StopCounting],
        (Scene::Wakes, M::M1) if flaw == Some(Flaw::WakerStaysCounted) => vec![Count, PassOn],
        // The waker begins again at most once, because nothing in this scene makes it begin a third time.
        (Scene::Wakes, M::M1) => vec![Count, PassOn, StopCounting, Count, PassOn, StopCounting],
        (Scene::Wakes, M::M2) => [vec![TakeP], submit].concat(),
        (_, M::M1) => submit,
        (Scene::Finds, M::M2) => match flaw {
            Some(Flaw::FinderWakesNobody) => vec![TakeG, StopCounting],
            Some(Flaw::FinderWakesTooEarly) => vec![TakeG, Fence, wake, StopCounting],
            _ => vec![TakeG, StopCounting, Fence, wake],
        },
        (Scene::Idles, M::M2) | (Scene::Wakes, M::M3) => go_idle,
        (Scene::GivesUp | Scene::Assigns, M::M2) if flaw == Some(Flaw::CountsUntilItSleeps) => {
            [go_idle, vec![StopCounting]].concat()
        }
        (Scene::GivesUp | Scene::Assigns, M::M2) => {
            let after = go_idle.iter().position(|act| *act == ListP).map_or(0, |index| index + 1);
            [&go_idle[..after], &[StopCounting], &go_idle[after..]].concat()
        }
        (Scene::Assigns, M::M3) => vec![Assign],
        (_, M::M3) => vec![],
    }
}

impl Trial for (Scene, &[M]) {
    type Flaw = Flaw;
    /// What is wrong in the end. After the last step of the schedule, M1 does the rest of its acts, then M2, then M3.
    type Seen = Option<Harm>;

    const FLAWS: &'static [&'static [Flaw]] = &[
        &[Flaw::SubmitsWithoutAFence, Flaw::FenceComesTooEarly, Flaw::IdlesWithoutAFence],
        &[Flaw::NeverLooksAgain, Flaw::LooksBeforeItIsIdle, Flaw::CountsUntilItSleeps, Flaw::AssignedLooksNoMore],
        &[
            Flaw::FinderWakesNobody,
            Flaw::FinderWakesTooEarly,
            Flaw::WakerGivesUp,
            Flaw::WakerStaysCounted,
            Flaw::IgnoresTheAnswer,
            Flaw::ReadiesEveryG,
            Flaw::IsKnownTooEarly,
        ],
    ];
    const LIMIT: &'static str = "at most nine steps";

    fn is_small(&self) -> bool {
        self.1.len() <= 9
    }

    fn run(&self, flaw: Option<Flaw>) -> Self::Seen {
        let (scene, schedule) = *self;
        let mut state = State::new(scene, flaw);
        schedule.iter().for_each(|who| state.act(*who as usize));
        state.finish();
        state.harm(scene)
    }
}

#[cfg(test)]
mod tests {
    use super::{Flaw, M, Scene};
    use crate::trial::{Trial, sequences};

    /// The scenes, and how many Ms they have.
    const SCENES: [(Scene, usize); 6] = [
        (Scene::Idles, 2),
        (Scene::GivesUp, 2),
        (Scene::Finds, 2),
        (Scene::Assigns, 3),
        (Scene::Wakes, 3),
        (Scene::Parks, 2),
    ];

    #[test]
    fn ms_without_a_flaw_do_no_harm_in_any_order_and_each_flaw_does() {
        let mut missed = <(Scene, &[M])>::FLAWS.concat();
        for (scene, count) in SCENES {
            for schedule in sequences(&[M::M1, M::M2, M::M3][..count], 0..=9) {
                let trial = (scene, &schedule[..]);
                assert_eq!(trial.run(None), None, "{trial:?}");
                missed.retain(|flaw| !trial.finds(*flaw));
            }
        }
        assert!(missed.is_empty(), "{missed:?}");
    }

    /// If the fence of either side is missing or comes too early, a schedule of at most six steps shows it.
    #[test]
    fn each_fence_is_needed_in_the_first_scene() {
        for flaw in [Flaw::SubmitsWithoutAFence, Flaw::FenceComesTooEarly, Flaw::IdlesWithoutAFence] {
            let mut schedules = sequences(&[M::M1, M::M2], 0..=6);
            assert!(schedules.any(|schedule| (Scene::Idles, &schedule[..]).finds(flaw)), "{flaw:?}");
        }
    }
}
