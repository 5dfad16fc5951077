//! The depth-first search through all states.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::mem;
use std::collections::HashSet;
use std::hash::DefaultHasher;

use super::memory::{MachineMemory, Mark};
use super::state::Explorable;
use super::table::Table;
use super::{Census, Choice, Failure, Setting, Step, invariants};

/// The number of the state in which the program has ended.
const END: u32 = 0;

/// A state on the current path.
struct Visit {
    number: u32,
    /// The mark by which the state before this one can be restored.
    mark: Mark,
    choices: Vec<Choice>,
    /// How many of the choices have been followed.
    followed: usize,
    /// The CPU that took the last step, and whether it can make progress.
    cpu: usize,
    can_progress: bool,
    /// The last choice that was followed, for the report of a failure.
    step: Option<Step>,
    /// How many more switches the search may make from this state on (`Setting::switches`). If `Setting::steps` is set,
    /// how many more steps instead.
    budget: u32,
}

/// The result of a visit to a state.
struct Visited {
    number: u32,
    /// Whether this is the first visit.
    is_new: bool,
    /// Whether to follow the steps from the state: the state is new, or a larger budget is left than at all earlier
    /// visits.
    is_worth: bool,
}

pub(super) struct Search {
    setting: Setting,
    machine: Explorable,
    known: Table,
    /// For each state, by number, the largest budget (of steps or of switches) that was left at a visit of the state.
    budgets: Vec<u32>,
    /// The transitions, as pairs of state numbers.
    edges: Vec<(u32, u32)>,
    census: Census,
    /// The hashes of the situations in the stable states.
    situations: HashSet<u64>,
}

impl Search {
    /// Makes a machine in `memory` and runs its program up to `begin`.
    pub(super) fn new(setting: Setting, memory: MachineMemory, program: fn()) -> Result<Self, Failure> {
        let census = Census::default();
        let machine = Explorable::new(setting, memory, program).map_err(|message| Failure {
            message,
            steps: Vec::new(),
            census,
        })?;
        Ok(Self {
            setting,
            machine,
            known: Table::new(),
            budgets: vec![0],
            edges: Vec::new(),
            census,
            situations: HashSet::new(),
        })
    }

    pub(super) fn run(mut self) -> Result<Census, Failure> {
        // The CPU on which the program has called `begin`. It must be read before `save`, which clears it.
        let cpu = self.machine.simulation.running_cpu();
        let hash = self.machine.save();
        let budget = self.setting.steps.or(self.setting.switches).unwrap_or(0);
        let Visited { number, .. } = self.visit(hash, cpu, budget);
        let mut path = vec![Visit {
            number,
            mark: self.machine.memory.mark(),
            choices: self.machine.choices(),
            followed: 0,
            cpu,
            can_progress: self.machine.can_progress(cpu),
            step: None,
            budget,
        }];
        while !path.is_empty() {
            match self.step(&mut path) {
                Ok(()) => self.census.depth = self.census.depth.max(path.len()),
                Err(message) => return Err(self.failure(message, &path)),
            }
        }
        self.census.states = self.known.len();
        self.census.situations = self.situations.len();
        self.census.sum_of_situations = self.situations.iter().fold(0, |sum, &hash| sum.wrapping_add(hash));
        // With a bound on the steps, a state may lack successors only because of the bound. So the search for traps
        // (see `find_trap`) is left out.
        match self.setting.steps.is_none().then(|| self.find_trap()).flatten() {
            None => {
                self.machine.memory.allow_reuse();
                Ok(self.census)
            }
            Some(message) => Err(self.failure(message, &path)),
        }
    }

    /// Follows the next choice of the last state on the path; goes back if there is none.
    fn step(&mut self, path: &mut Vec<Visit>) -> Result<(), String> {
        let Some(visit) = path.last_mut() else { return Ok(()) };
        let Some(&choice) = visit.choices.get(visit.followed) else {
            let left = path.pop();
            left.iter().for_each(|left| self.machine.memory.go_back(left.mark));
            return Ok(());
        };
        visit.followed += 1;
        let (number, last) = (visit.number, visit.cpu);
        let cpu = if let Choice::Step { cpu, .. } = choice { cpu } else { last };
        let Some(budget) = visit.budget.checked_sub(self.cost(visit, cpu)) else { return Ok(()) };
        let mark = self.machine.memory.mark();
        let who = self.machine.who(cpu);
        let end = self.machine.carry_out(choice);
        visit.step = Some(Step { choice, who, site: self.machine.explored().sites[cpu].get() });
        self.census.transitions += 1;
        let hash = self.machine.save();
        match end {
            Some(Ok(())) => {
                self.census.ends += 1;
                self.edges.push((number, END));
                self.machine.memory.go_back(mark);
                return Ok(());
            }
            Some(Err(message)) => return Err(message),
            None => {}
        }
        let Visited { number: to, is_new, is_worth } = self.visit(hash, cpu, budget);
        self.edges.push((number, to));
        if !is_worth {
            self.machine.memory.go_back(mark);
            return Ok(());
        }
        if is_new && invariants::check(&self.machine)? {
            self.census.stable += 1;
            let mut hasher = DefaultHasher::new();
            self.machine.situation().hash(&mut hasher);
            self.situations.insert(hasher.finish());
        }
        if self.known.len() > self.setting.states_at_most {
            return Err("there are more states than the setting allows".to_string());
        }
        let choices = self.machine.choices();
        if choices.is_empty() {
            return Err("every CPU halts and nothing is to wake one".to_string());
        }
        let can_progress = self.machine.can_progress(cpu);
        path.push(Visit { number: to, mark, choices, followed: 0, cpu, can_progress, step: None, budget });
        Ok(())
    }

    /// How much of its budget the search uses up if it lets `cpu` step after `visit`.
    fn cost(&self, visit: &Visit, cpu: usize) -> u32 {
        if self.setting.steps.is_some() {
            return 1;
        }
        let is_switch = cpu != visit.cpu && visit.can_progress;
        u32::from(self.setting.switches.is_some() && is_switch)
    }

    /// The key under which a state is known. If switches are counted, the key includes the CPU that can step without a
    /// switch.
    fn key(&self, hash: u128, cpu: usize) -> u128 {
        if self.setting.switches.is_some() { hash.wrapping_add(cpu as u128) } else { hash }
    }

    /// Records a visit.
    fn visit(&mut self, hash: u128, cpu: usize, budget: u32) -> Visited {
        let (number, is_new) = self.known.insert(self.key(hash, cpu));
        if is_new {
            self.budgets.push(budget);
        }
        let most = &mut self.budgets[number as usize];
        let is_worth = is_new || *most < budget || !self.setting.prunes;
        *most = budget.max(*most);
        Visited { number, is_new, is_worth }
    }

    /// Searches for a trap, that is, a state from which no path leads to the end of the program.
    fn find_trap(&mut self) -> Option<String> {
        let mut back = mem::take(&mut self.edges);
        back.iter_mut().for_each(|edge| *edge = (edge.1, edge.0));
        back.sort_unstable();
        let mut ends = vec![false; self.known.len() + 1];
        ends[END as usize] = true;
        let mut open = vec![END];
        while let Some(state) = open.pop() {
            let first = back.partition_point(|&(to, _)| to < state);
            for &(_, from) in back[first..].iter().take_while(|&&(to, _)| to == state) {
                if !mem::replace(&mut ends[from as usize], true) {
                    open.push(from);
                }
            }
        }
        let trapped = ends.iter().filter(|&&ends| !ends).count();
        (trapped != 0).then(|| alloc::format!("the program cannot end any more: {trapped} states lead nowhere"))
    }

    /// Builds the report of a failure at the end of `path`.
    fn failure(self, message: String, path: &[Visit]) -> Failure {
        let census = Census { states: self.known.len(), ..self.census };
        Failure { message, steps: path.iter().filter_map(|visit| visit.step).collect(), census }
    }
}
