//! Wrong signals, on which the tests of students are tried: a G that waits for a device, act by act, with the raise, the limit
//! and the M that polls, and what may be wrong with it. A schedule finds a flaw if it ends, with the flaw, with a [`Harm`].
//!
//! The states of the signal are those of `library/device_signals.rs`. The G waits again and again. A wait has a
//! *generation*, a number: the commit of a wait whose limit was short may still be under way when the G waits again.
//!
//! After the last step of a schedule, all do what they have begun, and the G goes on until it waits.

use alloc::collections::VecDeque;

use crate::trial::Trial;

/// Who acts next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Party {
    /// The G. It *checks* the signal: if that is RAISED, a wait ends. It *announces* a wait, which makes EMPTY PARKING,
    /// and leaves its M. When it runs again, it *ends* the wait, and begins the next one. While it waits, it does
    /// nothing.
    G,
    /// The commit, on the M that the G has left. It *arms* the limit, and then makes PARKING WAITING. If the signal was
    /// raised in the meantime, the G goes on, unless the limit has readied it.
    Commit,
    /// The interrupt handler of the device. It *raises* the signal: WAITING becomes QUEUED, EMPTY and PARKING become RAISED,
    /// and the other states stay. If the signal became QUEUED, the handler then adds it to the raised list and wakes
    /// an M, as an act of its own.
    Raise,
    /// The limit of the wait is over. If the wait has not ended yet, the G is readied.
    Limit,
    /// The M that was told takes the signal from the raised list. QUEUED becomes DELIVERED, and the G is readied. But if the
    /// limit has readied the G already, QUEUED becomes RAISED.
    Poll,
}

/// What may be wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// A raise of an EMPTY signal is dropped.
    DropsAnEarlyRaise,
    /// A raise of a PARKING signal is dropped.
    DropsARaiseWhileParking,
    /// A raise makes PARKING QUEUED, too.
    TakesParkingForWaiting,
    /// A raise of a QUEUED signal makes it RAISED.
    OverwritesQueued,
    /// The signal is on the raised list, and no M is told.
    TellsNobody,
    /// The commit makes the signal WAITING, whatever it was.
    CommitOverwritesARaise,
    /// If the signal was raised in the meantime, the commit readies the G, even if the limit has done so.
    CommitForgetsTheLimit,
    /// The commit does not arm the limit.
    ArmsNoLimit,
    /// The commit makes PARKING WAITING, even if PARKING is of the next wait.
    ForgetsTheGeneration,
    /// The end of a wait makes each state EMPTY, so that a late raise is dropped.
    EndDropsALateRaise,
    /// The end of a wait by its limit leaves the signal as it is.
    EndLeavesItsMark,
}

/// What is wrong in the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Harm {
    /// The G waits, although the device is ready.
    LostReadiness,
    /// The G waits, although the limit is over.
    WaitsAfterItsLimit,
    /// The G was readied twice for one wait.
    RunsTwice,
    /// The G was readied before it had left its stack.
    RunsOnTwoStacks,
    /// A wait has ended without a raise and without its limit.
    EndsForNothing,
    /// The G begins a wait, and the signal still says that it waits.
    Panics,
}

/// The states of the signal. The number is the generation of a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Word {
    Empty,
    Parking(u32),
    Waiting(u32),
    Queued(u32),
    Delivered(u32),
    Raised,
}

/// What the G does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Check,
    Announce,
    Wait,
    End,
}

#[derive(Debug)]
struct Model {
    flaw: Option<Flaw>,
    word: Word,
    next: Next,
    /// The number of the last wait, and whether somebody has ended it.
    generation: u32,
    is_claimed: bool,
    /// The commits that are under way: the generation of the wait, and whether the limit is armed. The G has left its stack
    /// when the limit is armed.
    commits: VecDeque<(u32, bool)>,
    armed: Option<u32>,
    /// The wait whose limit is over.
    over: Option<u32>,
    /// Whether the handler has still to put the signal on the raised list.
    is_to_list: bool,
    is_told: bool,
    /// Whether the device has raised the signal since a raise last ended a wait.
    is_ready: bool,
    harm: Option<Harm>,
}

impl Model {
    fn new(flaw: Option<Flaw>) -> Self {
        Self {
            flaw,
            word: Word::Empty,
            next: Next::Check,
            generation: 0,
            is_claimed: true,
            commits: VecDeque::new(),
            armed: None,
            over: None,
            is_to_list: false,
            is_told: false,
            is_ready: false,
            harm: None,
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn note(&mut self, is_so: bool, harm: Harm) {
        if is_so {
            self.harm = self.harm.or(Some(harm));
        }
    }

    fn act(&mut self, party: Party) {
        match party {
            Party::G => self.go_on(),
            Party::Commit => self.commit(),
            Party::Raise if core::mem::take(&mut self.is_to_list) => self.is_told = !self.has(Flaw::TellsNobody),
            Party::Raise => self.raise(),
            Party::Limit if self.next == Next::Wait => {
                self.over = Some(self.generation);
                self.fire();
            }
            Party::Limit => {}
            Party::Poll => {
                if core::mem::take(&mut self.is_told) {
                    self.deliver();
                }
            }
        }
    }

    fn go_on(&mut self) {
        match self.next {
            Next::Check => match self.word {
                Word::Raised => {
                    self.word = Word::Empty;
                    self.take_raise();
                }
                Word::Empty => self.next = Next::Announce,
                // The G polls itself, if an M has been told; otherwise it looks again later.
                Word::Queued(_) => self.act(Party::Poll),
                Word::Parking(_) | Word::Waiting(_) | Word::Delivered(_) => self.note(true, Harm::Panics),
            },
            Next::Announce if self.word == Word::Empty => {
                self.generation += 1;
                self.is_claimed = false;
                self.word = Word::Parking(self.generation);
                self.commits.push_back((self.generation, false));
                self.next = Next::Wait;
            }
            Next::Announce => self.next = Next::Check,
            Next::Wait => {}
            Next::End => self.end(),
        }
    }

    fn take_raise(&mut self) {
        self.note(!self.is_ready, Harm::EndsForNothing);
        self.is_ready = false;
    }

    fn end(&mut self) {
        self.next = Next::Check;
        self.armed = None;
        match self.word {
            Word::Delivered(_) => {
                self.word = Word::Empty;
                self.take_raise();
            }
            Word::Parking(_) | Word::Waiting(_) => {
                self.note(self.over != Some(self.generation), Harm::EndsForNothing);
                if !self.has(Flaw::EndLeavesItsMark) {
                    self.word = Word::Empty;
                }
            }
            Word::Empty | Word::Queued(_) | Word::Raised => {
                if self.has(Flaw::EndDropsALateRaise) {
                    self.word = Word::Empty;
                }
            }
        }
    }

    fn commit(&mut self) {
        let Some((generation, is_armed)) = self.commits.pop_front() else { return };
        if !is_armed {
            self.commits.push_front((generation, true));
            if !self.has(Flaw::ArmsNoLimit) {
                self.armed = Some(generation);
            }
            if self.over == Some(generation) {
                self.fire();
            }
            return;
        }
        let is_parking = match self.word {
            Word::Parking(of) => of == generation || self.has(Flaw::ForgetsTheGeneration),
            _ => self.has(Flaw::CommitOverwritesARaise),
        };
        if is_parking {
            self.word = Word::Waiting(self.generation);
        } else if self.claim(generation) {
            self.ready();
        } else if self.has(Flaw::CommitForgetsTheLimit) {
            self.note(true, Harm::RunsTwice);
        }
    }

    fn raise(&mut self) {
        self.is_ready = true;
        self.word = match self.word {
            Word::Waiting(generation) => Word::Queued(generation),
            Word::Parking(generation) if self.has(Flaw::TakesParkingForWaiting) => Word::Queued(generation),
            word @ Word::Parking(_) if self.has(Flaw::DropsARaiseWhileParking) => word,
            word @ Word::Empty if self.has(Flaw::DropsAnEarlyRaise) => word,
            word @ Word::Queued(_) if !self.has(Flaw::OverwritesQueued) => {
                // The handler has put it on the list already, or another one is about to.
                self.word = word;
                return;
            }
            word @ Word::Delivered(_) => word,
            _ => Word::Raised,
        };
        self.is_to_list = matches!(self.word, Word::Queued(_));
    }

    fn deliver(&mut self) {
        if let Word::Queued(generation) = self.word {
            self.word = Word::Raised;
            if self.claim(generation) {
                self.word = Word::Delivered(generation);
                self.ready();
            }
        }
    }

    fn fire(&mut self) {
        if let Some(generation) = self.armed.take_if(|armed| self.over == Some(*armed))
            && self.claim(generation)
        {
            self.ready();
        }
    }

    /// Returns whether the caller may end this wait. Only the first caller may.
    fn claim(&mut self, generation: u32) -> bool {
        self.generation == generation && !core::mem::replace(&mut self.is_claimed, true)
    }

    fn ready(&mut self) {
        let has_left = self.commits.iter().all(|(generation, is_armed)| *generation != self.generation || *is_armed);
        self.note(!has_left, Harm::RunsOnTwoStacks);
        self.note(self.next != Next::Wait, Harm::RunsTwice);
        self.next = Next::End;
    }

    /// Lets all do what they have begun. The G goes on until it waits.
    fn finish(&mut self) {
        for _ in 0..8 {
            while !self.commits.is_empty() {
                self.commit();
            }
            if self.is_to_list {
                self.act(Party::Raise);
            }
            self.act(Party::Poll);
            self.go_on();
        }
        self.note(self.is_ready, Harm::LostReadiness);
        self.note(self.next == Next::Wait && self.over == Some(self.generation), Harm::WaitsAfterItsLimit);
    }
}

impl Trial for &[Party] {
    type Flaw = Flaw;
    /// What is wrong in the end. After the last step of the schedule, all do what they have begun, and the G waits
    /// again.
    type Seen = Option<Harm>;

    const FLAWS: &'static [&'static [Flaw]] = &[
        &[
            Flaw::DropsAnEarlyRaise,
            Flaw::DropsARaiseWhileParking,
            Flaw::TakesParkingForWaiting,
            Flaw::OverwritesQueued,
            Flaw::TellsNobody,
            Flaw::CommitOverwritesARaise,
            Flaw::EndDropsALateRaise,
        ],
        &[Flaw::CommitForgetsTheLimit, Flaw::ArmsNoLimit, Flaw::ForgetsTheGeneration, Flaw::EndLeavesItsMark],
    ];
    const LIMIT: &'static str = "at most nine steps";

    fn is_small(&self) -> bool {
        self.len() <= 9
    }

    fn run(&self, flaw: Option<Flaw>) -> Self::Seen {
        let mut model = Model::new(flaw);
        self.iter().for_each(|party| model.act(*party));
        model.finish();
        model.harm
    }
}

#[cfg(test)]
mod tests {
    use super::Party;
    use crate::trial::{Trial, sequences};

    #[test]
    fn signal_without_a_flaw_does_no_harm_in_any_order() {
        for schedule in sequences(&[Party::G, Party::Commit, Party::Raise, Party::Limit, Party::Poll], 0..=8) {
            let trial = &schedule[..];
            assert_eq!(trial.run(None), None, "{trial:?}");
        }
    }
}
