//! The acts of the Ms, one after the other.

use alloc::vec::Vec;

use super::{Act, Flaw, Harm, M, Scene, program};

/// A store in the buffer of a CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Store {
    Work,
    IdleP,
}

/// An M: the acts that it has still to do, the stores in its buffer, whether it counts as spinning, whether its P is on the
/// idle list, and whether it was assigned a P.
#[derive(Debug, Default)]
struct Machine {
    acts: Vec<Act>,
    buffer: Vec<Store>,
    is_counted: bool,
    is_listed: bool,
    is_assigned: bool,
}

/// What the Ms share, as it is in memory.
#[derive(Debug, Default)]
pub(super) struct State {
    flaw: Option<Flaw>,
    machines: [Machine; 3],
    queued: u32,
    /// The length of the list of idle Ps, which is used under the lock.
    idle_list: u32,
    /// The number of idle Ps that is loaded without the lock. A store may still be in a buffer.
    idle_count: u32,
    spinning: u32,
    /// The Ms that hold a P and search for work: each of them, or an M that it wakes, finds all there is.
    searching: u32,
    is_saved: bool,
    is_known: bool,
    is_answered: bool,
    readied: u32,
    ran_too_early: bool,
}

impl State {
    pub(super) fn new(scene: Scene, flaw: Option<Flaw>) -> Self {
        let machine = |who| Machine { acts: program(scene, who, flaw), ..Machine::default() };
        let mut state = Self { flaw, machines: [M::M1, M::M2, M::M3].map(machine), ..Self::default() };
        if matches!(scene, Scene::GivesUp | Scene::Finds | Scene::Assigns) {
            state.count(M::M2 as usize);
        }
        if matches!(scene, Scene::Finds | Scene::Wakes) {
            (state.idle_list, state.idle_count) = (1, 1);
        }
        state.queued = u32::from(scene == Scene::Finds);
        state
    }

    /// Lets the M do its next act. If it has none, its stores become visible.
    pub(super) fn act(&mut self, who: usize) {
        if self.machines[who].acts.is_empty() {
            self.empty_buffer(who);
            return;
        }
        let is_done = match self.machines[who].acts.remove(0) {
            Act::Publish => self.store(who, Store::Work),
            Act::Fence => self.empty_buffer(who),
            Act::WakeIfNeeded => self.wake_if_needed(who),
            Act::ListP => {
                self.lock(who);
                self.idle_list += 1;
                self.machines[who].is_listed = true;
                self.store(who, Store::IdleP)
            }
            Act::StopCounting => self.stop_counting(who),
            Act::LookAgain => self.look_again(who),
            Act::TakeG => {
                self.empty_buffer(who);
                self.queued -= 1;
                false
            }
            Act::Assign => {
                self.lock(who);
                let idler = &mut self.machines[M::M2 as usize];
                idler.is_assigned = core::mem::take(&mut idler.is_listed);
                false
            }
            Act::Count => {
                self.empty_buffer(who);
                let counts = self.needs_waking();
                if counts {
                    self.count(who);
                }
                !counts
            }
            Act::PassOn => {
                let is_passed_on = self.take_idle(who);
                if is_passed_on {
                    self.searching += 1;
                }
                is_passed_on
            }
            Act::TakeP => !self.take_idle(who),
            Act::Save => {
                self.is_saved = true;
                false
            }
            Act::Commit => self.commit(),
            Act::Answer => self.answer(),
        };
        if is_done {
            self.machines[who].acts.clear();
        }
    }

    fn store(&mut self, who: usize, store: Store) -> bool {
        self.machines[who].buffer.push(store);
        false
    }

    fn empty_buffer(&mut self, who: usize) -> bool {
        for store in core::mem::take(&mut self.machines[who].buffer) {
            match store {
                Store::Work => self.queued += 1,
                Store::IdleP => self.idle_count += 1,
            }
        }
        false
    }

    /// Whoever takes the lock sees what was stored before others released it.
    fn lock(&mut self, who: usize) {
        for other in 0..self.machines.len() {
            if other == who || self.machines[other].buffer.contains(&Store::IdleP) {
                self.empty_buffer(other);
            }
        }
    }

    fn take_idle(&mut self, who: usize) -> bool {
        self.lock(who);
        let is_idle = self.idle_list > 0;
        if is_idle {
            self.idle_list -= 1;
            self.idle_count -= 1;
        }
        is_idle
    }

    fn count(&mut self, who: usize) {
        if !core::mem::replace(&mut self.machines[who].is_counted, true) {
            self.spinning += 1;
        }
    }

    fn stop_counting(&mut self, who: usize) -> bool {
        self.empty_buffer(who);
        if core::mem::take(&mut self.machines[who].is_counted) {
            self.spinning -= 1;
        }
        false
    }

    fn needs_waking(&self) -> bool {
        self.idle_count > 0 && self.spinning == 0
    }

    fn wake_if_needed(&mut self, who: usize) -> bool {
        if self.needs_waking() {
            self.spinning += 1;
            self.take_idle(who);
            self.searching += 1;
        }
        false
    }

    fn look_again(&mut self, who: usize) -> bool {
        if self.machines[who].is_assigned {
            if self.queued > 0 && self.flaw != Some(Flaw::AssignedLooksNoMore) {
                self.wake_if_needed(who);
            }
            return false;
        }
        let finds = self.queued > 0 && (!self.machines[who].is_listed || self.take_idle(who));
        if finds {
            self.machines[who].is_listed = false;
            self.count(who);
            self.searching += 1;
        }
        finds
    }

    fn ready(&mut self) {
        self.readied += 1;
        self.ran_too_early |= !self.is_saved;
    }

    fn commit(&mut self) -> bool {
        self.is_known = !self.is_answered;
        let is_readied = if self.is_answered { Flaw::IgnoresTheAnswer } else { Flaw::ReadiesEveryG };
        if (self.flaw == Some(is_readied)) != self.is_answered {
            self.ready();
        }
        false
    }

    fn answer(&mut self) -> bool {
        self.is_answered = true;
        if self.is_known {
            self.ready();
        }
        false
    }

    /// Lets each M do the rest of its acts, one M after the other.
    pub(super) fn finish(&mut self) {
        for who in 0..self.machines.len() {
            while !self.machines[who].acts.is_empty() {
                self.act(who);
            }
            self.empty_buffer(who);
        }
    }

    /// What is wrong when all acts are done.
    pub(super) fn harm(&self, scene: Scene) -> Option<Harm> {
        let harms = [
            (self.queued > 0 && self.idle_list > 0 && self.searching == 0, Harm::Stranded),
            (self.spinning > self.searching, Harm::CountsNobody),
            (scene == Scene::Parks && self.readied == 0, Harm::WaitsForEver),
            (self.readied > 1, Harm::RunsTwice),
            (self.ran_too_early, Harm::RunsWithoutItsContext),
        ];
        harms.into_iter().find_map(|(is_so, harm)| is_so.then_some(harm))
    }
}
