//! Compares the model of preemptions (lab 5) with the scheduler. The trials of students run on this model, so it must
//! do what the scheduler does. (The model of lab 1 is compared in `switches.rs`, that of lab 2 in `run_queue.rs`, that
//! of lab 3 in `picks.rs`, and that of lab 7 in `channels.rs`.)

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::sim::{self, Semaphore, Sim};
use lab_puzzles::ticks::Step;
use lab_puzzles::trial::{Trial, sequences};

use crate::machine::{of_cpus, try_run};

/// Steps that the Gs of a machine take: the running G takes the next one.
struct Script {
    steps: Vec<Step>,
    /// For each step, the G that has taken it. The last entry is the G that ran after the last step.
    takers: Mutex<Vec<usize>>,
    /// For each event, the signal that readies its G.
    signals: Vec<&'static Signal<Sim>>,
    /// Gs that wait for ever wait for `never`, and main waits for `end`.
    never: Semaphore,
    end: Semaphore,
}

impl Script {
    /// The body of the G that the step `number` has made runnable.
    fn follow(self: &Arc<Self>, number: usize) {
        loop {
            let taken = self.take(number);
            match self.steps.get(taken) {
                Some(Step::Ready) => {
                    let script = self.clone();
                    sim::go(move || script.follow(taken)).detach();
                }
                Some(Step::Wait) => self.never.acquire(1).forget(),
                Some(Step::Event) => sim::start_device(self.signals[taken], Duration::ZERO),
                // The running G computes until the time of the next step (in `take`).
                Some(Step::Moment | Step::HalfSlice) => {}
                Some(Step::Stop) => unreachable!("nobody could take a step after it"),
                None => {
                    if taken == self.steps.len() {
                        self.end.release(1);
                    }
                    return self.never.acquire(1).forget();
                }
            }
        }
    }

    /// Computes until the time of the next step. Other Gs may take steps in the meantime. Takes the step that is then
    /// the next one, and returns its number.
    fn take(&self, number: usize) -> usize {
        loop {
            let next = self.takers.lock().expect("no panic").len();
            let left = self.time_of(next).saturating_sub(sim::elapsed());
            if left.is_zero() {
                self.takers.lock().expect("no panic").push(number);
                return next;
            }
            sim::work(left);
        }
    }

    fn time_of(&self, number: usize) -> Duration {
        let time = |step: &Step| match step {
            Step::Moment => MOMENT,
            Step::HalfSlice => HALF,
            Step::Event => EVENT,
            _ => Duration::ZERO,
        };
        BEGIN + self.steps.iter().take(number).map(time).sum::<Duration>()
    }
}

/// For how long main sleeps. Then its P is idle, and nobody has been displaced for some time.
const SLEEP: Duration = Duration::from_millis(1);
/// When the first step is taken. Main goes on 5 us earlier, and its P then sets the timer. So the timer of the machine
/// is due a little before the end of the step in which the timer of the model is due.
const BEGIN: Duration = Duration::from_micros(1005);
/// Longer than in the model (50 us), because a G displaces another one a little later than its event comes.
const MOMENT: Duration = Duration::from_micros(60);
const HALF: Duration = Duration::from_millis(5);
/// How many steps are tried after the first one. (With more steps, a G may be urgent until the very end of a slice. A
/// difference of a few microseconds would then decide what ends first.)
const LONGEST: u32 = 5;
/// How long it takes until the interrupt of an event has come.
const EVENT: Duration = Duration::from_micros(5);

/// The Gs that take the steps of a sequence in the scheduler, on one P.
fn takers(steps: &[Step]) -> Vec<usize> {
    let events = steps.iter().map(|_| &*Box::leak(Box::new(Signal::new())));
    let nothing = || {
        let semaphore = Semaphore::new(1);
        semaphore.acquire(1).forget();
        semaphore
    };
    let script: Arc<Mutex<Option<Arc<Script>>>> = Arc::default();
    let kept = script.clone();
    let (steps, signals) = (steps.to_vec(), events.collect::<Vec<_>>());
    let ran = try_run(of_cpus(1, 0), move || {
        let script = Arc::new(Script { steps, takers: Mutex::default(), signals, never: nothing(), end: nothing() });
        *kept.lock().expect("no panic") = Some(script.clone());
        for number in (0..script.steps.len()).filter(|number| script.steps[*number] == Step::Event) {
            let script = script.clone();
            let wait = move || {
                script.signals[number].wait();
                script.follow(number);
            };
            sim::go(wait).detach();
        }
        sim::sleep(SLEEP);
        // Main takes the first step, which is `Ready`, and makes the first G.
        script.take(usize::MAX);
        let first = script.clone();
        sim::go(move || first.follow(0)).detach();
        script.end.acquire(1).forget();
    });
    // If no G ends the script, all Gs wait for ever.
    if let Err(failure) = ran {
        assert!(failure.message.contains("deadlock"), "{}", failure.message);
    }
    let script = script.lock().expect("no panic").take().expect("the run has begun");
    let takers = script.takers.lock().expect("no panic");
    takers[1..].iter().copied().take(script.steps.len()).collect()
}

/// Whether sentence 2 of `docs/policy.md` makes no difference for the steps. The model does not follow this sentence: when
/// urgent Gs have run for some time, one of the other Gs runs first. It makes no difference if no G begins a wait and no
/// other event comes after an event and some time.
fn is_in_the_model(steps: &[Step]) -> bool {
    let mut urgent = steps.iter().skip_while(|step| **step != Step::Event);
    let has_run = urgent.any(|step| matches!(step, Step::Moment | Step::HalfSlice));
    !has_run || !urgent.any(|step| matches!(step, Step::Event | Step::Wait))
}

#[test]
fn preemptions_are_those_of_the_scheduler() {
    let kinds = [Step::Ready, Step::Wait, Step::Event, Step::Moment, Step::HalfSlice];
    for rest in sequences(&kinds, 0..=LONGEST) {
        let steps = [&[Step::Ready], &rest[..]].concat();
        // The G that runs after each step, up to the first step after which none runs.
        let model: Vec<usize> = (&steps[..]).run(None).into_iter().map_while(|ran| ran).collect();
        let steps = &steps[..model.len()];
        if is_in_the_model(steps) {
            assert_eq!(takers(steps), model, "by the scheduler and by the model: {steps:?}");
        }
    }
}
