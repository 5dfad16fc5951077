//! Compares the model of picks and thefts (lab 3) with the scheduler. The turns of the global queue are not compared, because
//! they come more often in the model; a check of lab 3 tests them. Urgent Gs are not compared either; the model of lab 5
//! has them, too.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::platform::Pinned;
use gmp_sched::processor::ProcessorId;
use gmp_sched::sim::{self, Semaphore, Sim};
use gmp_sched::syscall;
use lab_puzzles::picks::{Flaw, PROCESSORS, Step};
use lab_puzzles::trial::{Trial, missed, sequences};

use crate::machine::{of_cpus, run};

/// How long a puppet computes before it looks again whether the next step is its own.
const MOMENT: Duration = Duration::from_micros(2);
/// If a pick has taken no G after this time, it takes none.
const PATIENCE: Duration = Duration::from_micros(300);

/// Steps that *puppets* take. A puppet is a G. One runs on each P, and takes the next step if it is a step of this P.
struct Script {
    steps: Vec<Step>,
    /// The Ps, by their numbers in the steps.
    processors: Mutex<Vec<ProcessorId>>,
    /// The number of the next step, and when it became the next one.
    next: AtomicUsize,
    since: Mutex<Duration>,
    /// What each pick has taken.
    picked: Arc<Mutex<Vec<usize>>>,
    is_over: AtomicBool,
    /// Puppets that have no more steps to take wait for `never`, and main waits for `end`.
    never: Semaphore,
    end: Semaphore,
    /// For each step, the semaphore of the G that goes to the global queue in this step.
    global: Vec<Semaphore>,
}

/// The number of each puppet that is not the G of a step: it runs from the beginning, or replaces a puppet that yields.
const NOBODY: usize = usize::MAX;

fn here() -> ProcessorId {
    Pinned::<Sim>::new().machine().processor().expect("a G runs").id()
}

/// A semaphore without permits, which can be released `times` times.
fn nothing(times: u32) -> Semaphore {
    let semaphore = Semaphore::new(times);
    semaphore.acquire(times).forget();
    semaphore
}

impl Script {
    fn new(steps: Vec<Step>, picked: Arc<Mutex<Vec<usize>>>) -> Arc<Self> {
        Arc::new(Self {
            processors: Mutex::default(),
            next: AtomicUsize::new(0),
            since: Mutex::default(),
            picked,
            is_over: AtomicBool::new(false),
            never: nothing((PROCESSORS + steps.len()) as u32),
            end: nothing(1),
            global: steps.iter().map(|_| nothing(2)).collect(),
            steps,
        })
    }

    /// Returns the next step, with its number. Ends the script after the last step, or if no puppet takes the step.
    fn next(&self) -> Option<(usize, Step)> {
        let number = self.next.load(Ordering::Relaxed);
        let waited = sim::elapsed() - *self.since.lock().expect("no panic");
        let step = self.steps.get(number).filter(|_| waited < PATIENCE && !self.is_over.load(Ordering::Relaxed));
        if step.is_none() && !self.is_over.swap(true, Ordering::Relaxed) {
            self.end.release(1);
        }
        Some((number, *step?))
    }

    fn advance(&self, number: usize) {
        *self.since.lock().expect("no panic") = sim::elapsed();
        self.next.store(number + 1, Ordering::Relaxed);
    }

    /// Notes that the puppet `number` runs, if a pick has taken it.
    fn run(&self, number: usize) {
        if number != NOBODY && !self.is_over.load(Ordering::Relaxed) {
            self.picked.lock().expect("no panic").push(number);
            self.advance(self.next.load(Ordering::Relaxed));
        }
    }

    /// What a puppet does.
    fn follow(self: &Arc<Self>, number: usize) {
        self.run(number);
        while let Some((number, step)) = self.next() {
            let index = match step {
                Step::Ready(index) | Step::Yields(index) | Step::Urgent(index) | Step::Pick(index) => index,
                Step::Preempted => 0,
            };
            if self.processors.lock().expect("no panic")[index] != here() {
                sim::work(MOMENT);
                continue;
            }
            match step {
                Step::Ready(_) => {
                    let script = self.clone();
                    sim::go(move || script.follow(number)).detach();
                }
                Step::Yields(_) => {
                    // Another puppet replaces this one, which is the G that yields. When the other puppet runs, this
                    // one is in a queue.
                    let script = self.clone();
                    let replaces = move || {
                        script.advance(number);
                        script.follow(NOBODY);
                    };
                    sim::go(replaces).detach();
                    sim::yield_now();
                    self.run(number);
                    continue;
                }
                // A G that is readied by an M without a P goes to the global queue, as a preempted G does.
                Step::Preempted => syscall::syscall::<Sim, _>(|| self.global[number].release(1)),
                Step::Pick(_) => return self.never.acquire(1).forget(),
                Step::Urgent(_) => unreachable!("it is not compared"),
            }
            self.advance(number);
        }
    }
}

/// What the picks of these steps take in the scheduler.
fn picked(steps: &[Step], seed: u64) -> Vec<usize> {
    let picked: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (steps, result) = (steps.to_vec(), picked.clone());
    run(of_cpus(PROCESSORS, seed), move || {
        let script = Script::new(steps, picked);
        for number in (0..script.steps.len()).filter(|number| script.steps[*number] == Step::Preempted) {
            let script = script.clone();
            let waits = move || {
                script.global[number].acquire(1).forget();
                script.follow(number);
            };
            sim::go(waits).detach();
        }
        sim::sleep(MOMENT);
        for _ in 0..PROCESSORS {
            let script = script.clone();
            let begins = move || {
                script.processors.lock().expect("no panic").push(here());
                while script.processors.lock().expect("no panic").len() < PROCESSORS {
                    sim::work(MOMENT);
                }
                *script.since.lock().expect("no panic") = sim::elapsed();
                script.follow(NOBODY);
            };
            sim::go(begins).detach();
        }
        script.end.acquire(1).forget();
        // All Gs end.
        script.never.release((PROCESSORS + script.steps.len()) as u32);
        script.global.iter().for_each(|semaphore| semaphore.release(1));
        sim::sleep(PATIENCE);
    });
    result.lock().expect("no panic").clone()
}

/// Whether the order in which a thief visits the other Ps makes no difference. (In the scheduler this order is random.)
fn is_the_same_in_each_order(steps: &[Step]) -> bool {
    let mirrored = |index: &usize| (PROCESSORS - index) % PROCESSORS;
    let mirrored = steps.iter().map(|step| match step {
        Step::Ready(index) => Step::Ready(mirrored(index)),
        Step::Yields(index) => Step::Yields(mirrored(index)),
        Step::Pick(index) => Step::Pick(mirrored(index)),
        step => *step,
    });
    (&mirrored.collect::<Vec<_>>()[..]).run(None) == steps.run(None)
}

/// Whether the scheduler can be made to take these steps as the model does.
fn can_be_compared(steps: &[Step]) -> bool {
    let count = |is_one: fn(&Step) -> bool| steps.iter().filter(|step| is_one(step)).count();
    // With more than two Gs in the global queue, a P takes more than one.
    let fits = count(|step| *step == Step::Preempted) == 0
        || count(|step| matches!(step, Step::Preempted | Step::Yields(_))) <= 2;
    // After a yield, the G in `runnext` runs. This must be the puppet that replaces the yielding G.
    let mut is_free = [true; PROCESSORS];
    let can_yield = steps.iter().all(|step| match step {
        Step::Ready(index) => {
            is_free[*index] = false;
            true
        }
        Step::Pick(index) => {
            is_free[*index] = true;
            true
        }
        Step::Yields(index) => is_free[*index],
        Step::Urgent(_) | Step::Preempted => true,
    });
    fits && can_yield && steps.run(None) == steps.run(Some(Flaw::NeverTakesATurn)) && is_the_same_in_each_order(steps)
}

#[test]
fn picks_are_those_of_the_scheduler() {
    let kinds = [
        Step::Ready(0),
        Step::Yields(0),
        Step::Pick(0),
        Step::Preempted,
        Step::Ready(1),
        Step::Yields(1),
        Step::Pick(1),
        Step::Pick(2),
    ];
    let mut compared: Vec<Vec<Step>> = Vec::new();
    for steps in sequences(&kinds, 1..=5) {
        // Each pick before the last one must take a G, because the model has no idle Ps. The last step must be a pick,
        // because otherwise the sequence without it was compared already.
        let model = (&steps[..]).run(None);
        let picks = || steps.iter().zip(&model).filter(|(step, _)| matches!(step, Step::Pick(_)));
        let is_last = matches!(steps.last(), Some(Step::Pick(_)));
        let takes = picks().map_while(|(_, taken)| *taken).count();
        if !is_last || takes + 1 < picks().count() || !can_be_compared(&steps) {
            continue;
        }
        let taken: Vec<usize> = picks().filter_map(|(_, taken)| *taken).collect();
        assert_eq!(picked(&steps, compared.len() as u64), taken, "by the scheduler and by the model: {steps:?}");
        compared.push(steps);
    }
    // The compared sequences find each flaw of a thief. So a model with such a flaw would fail this test.
    let compared: Vec<&[Step]> = compared.iter().map(|steps| &steps[..]).collect();
    let thieves = <&[Step]>::FLAWS[1];
    assert!(missed(&compared, thieves).is_empty(), "{:?} of {}", missed(&compared, thieves), compared.len());
}
