//! The depth-first search through all states.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use std::collections::HashMap;

use super::memory::Snapshot;
use super::state::Explorable;
use super::{Census, Choice, Failure, Setting, Step, invariants};

/// The number of the state in which the program has ended.
const END: u32 = 0;

/// A state on the current path.
struct Visit {
    snapshot: Snapshot,
    number: u32,
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

/// A state that has been visited.
struct Known {
    number: u32,
    /// The largest budget (of steps or of switches) that was left at a visit of the state.
    budget: u32,
}

pub(super) struct Search {
    setting: Setting,
    machine: Explorable,
    known: HashMap<u128, Known>,
    /// The transitions, as pairs of state numbers.
    edges: Vec<(u32, u32)>,
    census: Census,
}

impl Search {
    pub(super) fn new(setting: Setting, program: fn()) -> Self {
        let machine = Explorable::new(setting, program);
        Self { setting, machine, known: HashMap::new(), edges: Vec::new(), census: Census::default() }
    }

    pub(super) fn run(mut self) -> Result<Census, Failure> {
        let snapshot = self.machine.save(None);
        let budget = self.setting.steps.or(self.setting.switches).unwrap_or(0);
        let number = self.visit(snapshot.hash, 0, budget).expect("it is the first");
        let mut path = vec![Visit {
            snapshot,
            number,
            choices: self.machine.choices(),
            followed: 0,
            cpu: 0,
            can_progress: true,
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
        // With a bound on the steps, a state may lack successors only because of the bound. So the search for traps
        // (see `find_trap`) is left out.
        match self.setting.steps.is_none().then(|| self.find_trap()).flatten() {
            None => Ok(self.census),
            Some(message) => Err(self.failure(message, &path)),
        }
    }

    /// Follows the next choice of the last state on the path; goes back if there is none.
    fn step(&mut self, path: &mut Vec<Visit>) -> Result<(), String> {
        let Some(visit) = path.last_mut() else { return Ok(()) };
        let Some(&choice) = visit.choices.get(visit.followed) else {
            path.pop();
            return Ok(());
        };
        visit.followed += 1;
        let (number, last) = (visit.number, visit.cpu);
        let cpu = if let Choice::Step { cpu, .. } = choice { cpu } else { last };
        let Some(budget) = visit.budget.checked_sub(self.cost(visit, cpu)) else { return Ok(()) };
        if visit.followed != 1 {
            self.machine.memory.restore(&visit.snapshot);
        }
        let who = self.machine.who(cpu);
        let end = self.machine.carry_out(choice);
        visit.step = Some(Step { choice, who, site: self.machine.explored().sites[cpu].get() });
        self.census.transitions += 1;
        let snapshot = self.machine.save(Some(&visit.snapshot));
        match end {
            Some(Ok(())) => {
                self.census.ends += 1;
                self.edges.push((number, END));
                return Ok(());
            }
            Some(Err(message)) => return Err(message),
            None => {}
        }
        let is_known = self.known.contains_key(&self.key(snapshot.hash, cpu));
        let to = self.visit(snapshot.hash, cpu, budget);
        let known = &self.known[&self.key(snapshot.hash, cpu)];
        self.edges.push((number, known.number));
        let Some(to) = to else { return Ok(()) };
        if !is_known {
            self.census.stable += usize::from(invariants::check(&self.machine)?);
        }
        if self.known.len() > self.setting.states_at_most {
            return Err("there are more states than the setting allows".to_string());
        }
        let choices = self.machine.choices();
        if choices.is_empty() {
            return Err("every CPU halts and nothing is to wake one".to_string());
        }
        let can_progress = self.machine.can_progress(cpu);
        path.push(Visit { snapshot, number: to, choices, followed: 0, cpu, can_progress, step: None, budget });
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

    /// Records a visit. Returns the state's number, or `None` if it was visited with at least this budget before.
    fn visit(&mut self, hash: u128, cpu: usize, budget: u32) -> Option<u32> {
        let number = u32::try_from(self.known.len() + 1).expect("fewer than 2^32 states");
        let key = self.key(hash, cpu);
        let mut is_new = false;
        let known = self.known.entry(key).or_insert_with(|| {
            is_new = true;
            Known { number, budget }
        });
        let is_worth = is_new || known.budget < budget || !self.setting.prunes;
        known.budget = known.budget.max(budget);
        is_worth.then_some(known.number)
    }

    /// Searches for a trap, that is, a state from which no path leads to the end of the program.
    fn find_trap(&self) -> Option<String> {
        let mut back: Vec<(u32, u32)> = self.edges.iter().map(|&(from, to)| (to, from)).collect();
        back.sort_unstable();
        let mut ends = vec![false; self.known.len() + 1];
        ends[END as usize] = true;
        let mut open = vec![END];
        while let Some(state) = open.pop() {
            let first = back.partition_point(|&(to, _)| to < state);
            for &(_, from) in back[first..].iter().take_while(|&&(to, _)| to == state) {
                if !core::mem::replace(&mut ends[from as usize], true) {
                    open.push(from);
                }
            }
        }
        let trapped = ends.iter().filter(|&&ends| !ends).count();
        (trapped != 0).then(|| alloc::format!("the program cannot end any more: {trapped} states lead nowhere"))
    }

    /// Builds the report of a failure at the end of `path`.
    fn failure(self, message: String, path: &[Visit]) -> Failure {
        self.machine.memory.abandon();
        let census = Census { states: self.known.len(), ..self.census };
        Failure { message, steps: path.iter().filter_map(|visit| visit.step).collect(), census }
    }
}
