//! The lost wakeup, in all orders in which two CPUs can perform their steps.
//!
//! Each CPU has a store buffer, as an x86 processor has: a store waits there, where only its own CPU sees it, and
//! reaches memory later, in a separate step. This step may come at any time before the next fence of the CPU.

use super::{Experiment, Paper};

pub(super) const ALL: &[Experiment] = &[Experiment {
    name: "lost-wakeup",
    shows: "one CPU submits a G while another goes idle, in all orders of their steps",
    body: lost_wakeup,
}];

/// A step of a program. Word 0 is the queue, and word 1 the list of idle Ps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Store(usize),
    Fence,
    Load(usize),
}

use Step::{Fence, Load, Store};

/// The state of memory and of both CPUs after some of the steps.
#[derive(Clone, Debug, Default)]
struct State {
    memory: [bool; 2],
    /// The number of steps that each CPU has performed.
    done: [usize; 2],
    /// What is in the store buffer of each CPU.
    buffered: [Option<usize>; 2],
    /// What each CPU has loaded.
    saw: [bool; 2],
    history: Vec<String>,
}

/// All orders of two programs.
#[derive(Debug, Default)]
struct Orders {
    count: u32,
    /// The orders in which neither CPU sees what the other one has stored.
    lost: Vec<State>,
}

const CPUS: [&str; 2] = ["submitter", "idler"];
const WORDS: [&str; 2] = ["the G in the queue", "its P on the idle list"];
const READS: [&str; 2] = ["is there a G?", "is a P idle?"];

impl Orders {
    fn of(programs: [&[Step]; 2]) -> Self {
        let mut orders = Self::default();
        orders.explore(programs, &State::default());
        orders
    }

    fn explore(&mut self, programs: [&[Step]; 2], state: &State) {
        let mut is_over = true;
        for cpu in 0..2 {
            for next in [state.drained(cpu), state.stepped(cpu, programs[cpu])].into_iter().flatten() {
                is_over = false;
                self.explore(programs, &next);
            }
        }
        if is_over {
            self.count += 1;
            if state.saw == [false; 2] {
                self.lost.push(state.clone());
            }
        }
    }
}

impl State {
    /// Returns the state after the store in the buffer of `cpu` has reached memory, or `None` if the buffer is empty.
    fn drained(&self, cpu: usize) -> Option<Self> {
        let word = self.buffered[cpu]?;
        let mut next = self.clone();
        next.buffered[cpu] = None;
        next.memory[word] = true;
        next.history.push(format!("{:<9}  … {} reaches memory", CPUS[cpu], WORDS[word]));
        Some(next)
    }

    /// Returns the state after the next step of `cpu`. Returns `None` if the program has ended, or if the step is a
    /// fence and the buffer is not empty.
    fn stepped(&self, cpu: usize, program: &[Step]) -> Option<Self> {
        let step = *program.get(self.done[cpu])?;
        let mut next = self.clone();
        next.done[cpu] += 1;
        let said = match step {
            Fence if self.buffered[cpu].is_some() => return None,
            Fence => "fence".to_string(),
            Store(word) => {
                next.buffered[cpu] = Some(word);
                format!("stores {}", WORDS[word])
            }
            Load(word) => {
                next.saw[cpu] = self.memory[word] || self.buffered[cpu] == Some(word);
                format!("loads: {} {}", READS[word], if next.saw[cpu] { "yes" } else { "no" })
            }
        };
        next.history.push(format!("{:<9}  {said}", CPUS[cpu]));
        Some(next)
    }
}

fn lost_wakeup(paper: &mut Paper) {
    let cases: [(&str, [&[Step]; 2]); 4] = [
        ("the idler looks, then goes on the list", [&[Store(0), Fence, Load(1)], &[Load(0), Store(1)]]),
        ("no fence", [&[Store(0), Load(1)], &[Store(1), Load(0)]]),
        ("a fence on one side", [&[Store(0), Load(1)], &[Store(1), Fence, Load(0)]]),
        ("a fence on both sides", [&[Store(0), Fence, Load(1)], &[Store(1), Fence, Load(0)]]),
    ];
    let mut shortest = None;
    for (name, programs) in cases {
        let orders = Orders::of(programs);
        paper.line(format!("{name:<40} {:>3} orders, lost in {:>2}", orders.count, orders.lost.len()));
        if name == "no fence" {
            shortest = orders.lost.into_iter().next();
        }
    }
    paper.line("\nOne of the orders without a fence:");
    shortest.into_iter().flat_map(|state| state.history).for_each(|line| paper.line(format!("  {line}")));
}
