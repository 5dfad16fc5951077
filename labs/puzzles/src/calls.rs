//! Wrong system calls, on which the tests of students are tried: a model of two Ps, their Ms and sysmon, and what may be wrong
//! with the way in which a P goes from M to M. A sequence of steps finds a flaw if, after one of them, one sees another G or
//! another M on a P, or another number of Ms.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::trial::Trial;

/// The number of Ps, and of the Ms at the start.
pub const PROCESSORS: usize = 2;

/// What happens. A G is called by the number of the step in which it becomes runnable. The number in a step is that of
/// a P, 0 or 1. A step that cannot happen, because no G runs on the P, or no call lasts, does nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// A G becomes runnable. It runs on the first idle P, or waits in the queue.
    Work,
    /// The G that runs on this P ends. The M takes the first G of the queue; if there is none, it becomes idle, and its
    /// P, too.
    End(usize),
    /// The G that runs on this P begins a call that will block its M: the handoff.
    Block(usize),
    /// The same as `Block`, and a G becomes runnable in the meantime: after the handoff has looked for work, and before the P
    /// is idle.
    BlockAndWork(usize),
    /// The G that runs on this P begins a call that may be short.
    Call(usize),
    /// sysmon checks all calls, 20 us after its last check.
    Check,
    /// The same, but the M whose P sysmon takes first returns in the meantime: when it is counted as blocked already, and still
    /// has its P.
    CheckAndReturn,
    /// The call that has lasted longest ends. Without a P for it, its G waits in the queue.
    Return,
}

/// What may be wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// A call that will block keeps its P, as a short one does.
    KeepsTheP,
    /// Nobody makes sure that there is an M for the P.
    BlocksWithoutASuccessor,
    /// Each call that will block makes an M, although one is idle.
    MakesAnMForEachCall,
    /// The P becomes idle, although there is work for it.
    PutsThePAside,
    /// The P goes to another M, although there is no work for it.
    WakesAnMForNothing,
    /// Nobody looks for work again when the P is idle.
    NeverLooksAgain,
    /// sysmon takes the P of a call that is new.
    RetakesAtOnce,
    /// sysmon does not note that it has seen a call, so each call seems to be new at each check.
    NeverNotesTheCall,
    /// sysmon takes a P without work, although an idle P can take new work.
    RetakesForNothing,
    /// The M stays counted as blocked if it returns before sysmon has its P.
    KeepsTheCount,
    /// sysmon takes the P even if the M has returned.
    TakesWithoutAClaim,
    /// The M takes its old P, even if another M has it.
    ReturnsWithoutAsking,
    /// The M takes the first idle P, although its old one is idle.
    TakesAnyIdleP,
    /// The M stays counted as blocked when it has got an idle P.
    StaysCounted,
}

/// Who holds a P.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Holder {
    /// An M that runs a G, or that has found none.
    Runs(usize, Option<usize>),
    /// An M that is in a call of its G.
    InCall(usize, usize),
}

/// A call that lasts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Call {
    machine: usize,
    goroutine: usize,
    old: usize,
    /// Whether sysmon has seen it.
    is_seen: bool,
}

/// What one sees after a step.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    /// Who holds each P; `None` if it is idle.
    pub holders: [Option<Holder>; PROCESSORS],
    /// The Gs that wait.
    pub queue: VecDeque<usize>,
    /// How many Ms there are.
    pub machines: usize,
    /// The M and the G that run without a P of their own.
    pub intruder: Option<(usize, usize)>,
}

#[derive(Debug)]
struct Model {
    flaw: Option<Flaw>,
    seen: Seen,
    /// The Ms without a P that are not in a call. The one that became idle last is woken first.
    idle: Vec<usize>,
    /// The number of Ms in calls, without a P. With a flaw, it may be too large or too small.
    blocked: usize,
    calls: Vec<Call>,
}

impl Model {
    fn new(flaw: Option<Flaw>) -> Self {
        let seen = Seen { holders: [None; PROCESSORS], queue: VecDeque::new(), machines: PROCESSORS, intruder: None };
        Self { flaw, seen, idle: vec![1, 0], blocked: 0, calls: Vec::new() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn take(&mut self, step: Step, number: usize) {
        match step {
            Step::Work => self.submit(number),
            Step::End(index) => {
                if let Some(Holder::Runs(machine, Some(_))) = self.seen.holders[index] {
                    let next = self.seen.queue.pop_front();
                    self.seen.holders[index] = next.map(|next| Holder::Runs(machine, Some(next)));
                    self.idle.extend(next.is_none().then_some(machine));
                }
            }
            Step::Block(index) => self.block(index, None),
            Step::BlockAndWork(index) => self.block(index, Some(number)),
            Step::Call(index) => self.call(index),
            Step::Check => self.check(false),
            Step::CheckAndReturn => self.check(true),
            Step::Return => {
                if !self.calls.is_empty() {
                    let call = self.calls.remove(0);
                    self.end_call(call);
                }
            }
        }
    }

    fn submit(&mut self, goroutine: usize) {
        self.seen.queue.push_back(goroutine);
        self.wake();
    }

    /// Gives an idle P to an idle M, as long as there are both, and work.
    fn wake(&mut self) {
        while let Some(index) = self.seen.holders.iter().position(Option::is_none)
            && !self.seen.queue.is_empty()
            && let Some(machine) = self.idle.pop()
        {
            self.seen.holders[index] = Some(Holder::Runs(machine, self.seen.queue.pop_front()));
        }
    }

    /// Begins a call of the G that runs on this P, which stays with its M.
    fn call(&mut self, index: usize) {
        if let Some(Holder::Runs(machine, Some(goroutine))) = self.seen.holders[index] {
            self.calls.push(Call { machine, goroutine, old: index, is_seen: false });
            self.seen.holders[index] = Some(Holder::InCall(machine, goroutine));
        }
    }

    fn block(&mut self, index: usize, work: Option<usize>) {
        let calls = self.calls.len();
        self.call(index);
        let is_begun = self.calls.len() > calls;
        if is_begun && !self.has(Flaw::KeepsTheP) {
            if !self.has(Flaw::BlocksWithoutASuccessor) {
                self.secure_successor(self.has(Flaw::MakesAnMForEachCall));
            }
            self.hand_off(index, work);
        } else {
            work.into_iter().for_each(|work| self.submit(work));
        }
    }

    /// Counts an M as blocked. Makes one if the others are not enough for all Ps.
    fn secure_successor(&mut self, always: bool) {
        self.blocked += 1;
        if always || self.seen.machines < self.blocked + PROCESSORS {
            self.idle.insert(0, self.seen.machines);
            self.seen.machines += 1;
        }
    }

    /// Passes the P on. If there is `work`, this G becomes runnable after the handoff has looked for work.
    fn hand_off(&mut self, index: usize, work: Option<usize>) {
        let has_work = !self.seen.queue.is_empty();
        // If work is submitted now, an M is woken for another P that is idle, but not for this one, which is not idle yet.
        work.into_iter().for_each(|work| self.submit(work));
        self.seen.holders[index] = None;
        if has_work && !self.has(Flaw::PutsThePAside) || !has_work && self.has(Flaw::WakesAnMForNothing) {
            let machine = self.idle.pop();
            self.seen.holders[index] = machine.map(|machine| Holder::Runs(machine, self.seen.queue.pop_front()));
        } else if !has_work && !self.has(Flaw::NeverLooksAgain) {
            self.wake();
        }
    }

    fn check(&mut self, returns: bool) {
        let mut returns = returns;
        for index in 0..PROCESSORS {
            let Some(Holder::InCall(machine, _)) = self.seen.holders[index] else { continue };
            let Some(position) = self.calls.iter().position(|call| call.machine == machine) else { continue };
            let is_seen = self.calls[position].is_seen || self.has(Flaw::RetakesAtOnce);
            self.calls[position].is_seen = !self.has(Flaw::NeverNotesTheCall);
            let others_take_work = self.seen.holders.contains(&None) && !self.has(Flaw::RetakesForNothing);
            if !is_seen || (self.seen.queue.is_empty() && others_take_work) {
                continue;
            }
            self.secure_successor(false);
            if core::mem::take(&mut returns) {
                let call = self.calls.remove(position);
                self.end_call(call);
                self.blocked -= usize::from(!self.has(Flaw::KeepsTheCount));
                if !self.has(Flaw::TakesWithoutAClaim) {
                    continue;
                }
                self.seen.intruder = Some((machine, call.goroutine));
            }
            self.hand_off(index, None);
        }
    }

    fn end_call(&mut self, call: Call) {
        let Call { machine, goroutine, old, .. } = call;
        let has_old = self.seen.holders[old] == Some(Holder::InCall(machine, goroutine));
        let regained = if has_old {
            Some(old)
        } else if self.has(Flaw::ReturnsWithoutAsking) {
            if let Some(Holder::Runs(other, Some(robbed))) = self.seen.holders[old] {
                self.seen.intruder = Some((other, robbed));
            }
            Some(old)
        } else {
            if !self.has(Flaw::StaysCounted) {
                self.blocked = self.blocked.saturating_sub(1);
            }
            let first = self.seen.holders.iter().position(Option::is_none);
            let is_old_idle = self.seen.holders[old].is_none();
            let wants_old = is_old_idle && !self.has(Flaw::TakesAnyIdleP);
            wants_old.then_some(old).or(first)
        };
        match regained {
            Some(index) => self.seen.holders[index] = Some(Holder::Runs(machine, Some(goroutine))),
            None => {
                self.idle.push(machine);
                self.submit(goroutine);
            }
        }
    }
}

impl Trial for &[Step] {
    type Flaw = Flaw;
    /// What one sees after each step.
    type Seen = Vec<Seen>;

    const FLAWS: &'static [&'static [Flaw]] = &[
        &[
            Flaw::KeepsTheP,
            Flaw::BlocksWithoutASuccessor,
            Flaw::MakesAnMForEachCall,
            Flaw::PutsThePAside,
            Flaw::WakesAnMForNothing,
            Flaw::NeverLooksAgain,
        ],
        &[
            Flaw::RetakesAtOnce,
            Flaw::NeverNotesTheCall,
            Flaw::RetakesForNothing,
            Flaw::KeepsTheCount,
            Flaw::TakesWithoutAClaim,
        ],
        &[Flaw::ReturnsWithoutAsking, Flaw::TakesAnyIdleP, Flaw::StaysCounted],
    ];
    const LIMIT: &'static str = "at most seven steps, on the Ps 0 and 1";

    fn is_small(&self) -> bool {
        let is_there = |step: &Step| match step {
            Step::End(index) | Step::Block(index) | Step::BlockAndWork(index) | Step::Call(index) => {
                *index < PROCESSORS
            }
            Step::Work | Step::Check | Step::CheckAndReturn | Step::Return => true,
        };
        self.len() <= 7 && self.iter().all(is_there)
    }

    fn run(&self, flaw: Option<Flaw>) -> Self::Seen {
        let mut model = Model::new(flaw);
        let mut seen = |(number, step): (usize, &Step)| {
            model.take(*step, number);
            model.seen.clone()
        };
        self.iter().enumerate().map(&mut seen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Holder, Model, PROCESSORS, Step};
    use crate::trial::sequences;

    const STEPS: [Step; 11] = [
        Step::Work,
        Step::End(0),
        Step::End(1),
        Step::Block(0),
        Step::Block(1),
        Step::BlockAndWork(0),
        Step::Call(0),
        Step::Call(1),
        Step::Check,
        Step::CheckAndReturn,
        Step::Return,
    ];

    #[test]
    fn right_model_loses_no_g_no_m_and_no_p() {
        for steps in sequences(&STEPS, 0..=5) {
            let mut model = Model::new(None);
            let mut alive = 0;
            for (number, step) in steps.iter().enumerate() {
                let runs = |index: &usize| matches!(model.seen.holders[*index], Some(Holder::Runs(_, Some(_))));
                alive += usize::from(matches!(step, Step::Work | Step::BlockAndWork(_)));
                alive -= usize::from(matches!(step, Step::End(index) if runs(index)));
                model.take(*step, number);
                let holders = model.seen.holders.iter().flatten();
                let running = holders.clone().filter(|holder| matches!(holder, Holder::Runs(..))).count();
                let in_call = holders.count() - running;
                let Model { seen, idle, blocked, calls, .. } = &model;
                assert_eq!(running + seen.queue.len() + calls.len(), alive, "a G of {steps:?}");
                assert_eq!(*blocked, calls.len() - in_call, "the count after {steps:?}");
                assert_eq!(running + idle.len() + calls.len(), seen.machines, "an M of {steps:?}");
                let is_idle = seen.holders.contains(&None);
                assert!(!is_idle || seen.queue.is_empty(), "a G waits, and a P is idle: {steps:?}");
                assert!(idle.len() + running + in_call >= PROCESSORS, "there is an M for each P: {steps:?}");
                assert!(seen.intruder.is_none());
            }
        }
    }
}
