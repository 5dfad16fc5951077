//! Lab 9: tests the model of a policy with policies that keep its promises, and with policies that break one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gmp_sched::policy::{Begun, Cause, GoroutineId, Place, Policy, PriorityAging, ProcessorState, Ready};
use gmp_sched::sim::{self, Builder, Config, Failure, PolicyModel};
use lab_policy::model::{Waiting, allows};
use lab_policy::{ANSWERS, LabPolicy};

use crate::machine::{of_cpus, tree, try_run};

/// A policy that consists of a function for the ranks.
#[derive(Debug)]
struct Ranks {
    says: &'static str,
    rank: fn(&Ready) -> u64,
}

impl Policy for Ranks {
    fn place(&self, ready: &Ready, _: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        let rank = match ready.cause {
            Cause::Displaced => ready.rank,
            _ => (self.rank)(ready),
        };
        Place { rank, processor: ready.processor }
    }
}

/// The rank of [`PriorityAging`], in which each priority is worth 50 ms.
fn aging(ready: &Ready, answers: u64, computes: u64) -> u64 {
    let parameter = if ready.parameter == ANSWERS { answers } else { computes };
    PriorityAging.place(&Ready { parameter, ..*ready }, &mut std::iter::empty()).rank
}

static RIGHT: [Ranks; 3] = [
    Ranks { says: "a G that answers is as good as one that came 50 ms before", rank: |ready| aging(ready, 1, 0) },
    Ranks { says: "a G that answers is as good as one that came 100 ms before", rank: |ready| aging(ready, 2, 0) },
    Ranks { says: "a G that answers is as good as one that came 150 ms before", rank: |ready| aging(ready, 3, 0) },
];

static WRONG: [Ranks; 6] = [
    Ranks { says: "first come, first served", rank: |ready| ready.now.as_nanos() },
    Ranks { says: "last come, first served", rank: |ready| u64::MAX - ready.now.as_nanos() },
    Ranks { says: "the Gs that answer always come first", rank: |ready| u64::from(ready.parameter != ANSWERS) },
    Ranks { says: "the Gs that compute always come first", rank: |ready| u64::from(ready.parameter == ANSWERS) },
    Ranks { says: "a G that computes is as good as one that came 50 ms before", rank: |ready| aging(ready, 0, 1) },
    Ranks { says: "a G that answers is as good as one that came 350 ms before", rank: |ready| aging(ready, 7, 0) },
];

/// The student's model, and for each G since when it waits.
#[derive(Default)]
struct Promises(BTreeMap<GoroutineId, Waiting>);

impl PolicyModel for Promises {
    fn waits(&mut self, ready: &Ready) {
        let waiting = Waiting { answers: ready.parameter == ANSWERS, since: ready.now };
        let known = self.0.entry(ready.goroutine).or_insert(waiting);
        if ready.cause != Cause::Displaced {
            *known = waiting;
        }
    }

    fn begins(&mut self, begun: &Begun, others: &[GoroutineId]) -> Result<(), String> {
        let others: Vec<_> = others.iter().map(|other| self.0[other]).collect();
        allows(self.0[&begun.goroutine], &others).map_err(str::to_string)
    }
}

/// Gs that compute, beside Gs that answer. At first, those that answer have pauses; then they have work for all CPUs.
fn mixture(cpus: usize) {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let compute = move || {
        while !over.load(Ordering::Relaxed) {
            sim::work(Duration::from_millis(3));
        }
    };
    let answer = || {
        for _ in 0..40 {
            sim::sleep(Duration::from_millis(1));
            sim::work(Duration::from_micros(200));
        }
        for _ in 0..400 {
            sim::work(Duration::from_millis(1));
            sim::yield_now();
        }
    };
    let computes: Vec<_> = (0..2 * cpus).map(|_| sim::go(compute.clone())).collect();
    let answers: Vec<_> = (0..2 * cpus).map(|_| Builder::new().parameter(ANSWERS).go(answer)).collect();
    answers.into_iter().for_each(|g| g.join().expect("no panic"));
    is_over.store(true, Ordering::Relaxed);
    computes.into_iter().for_each(|g| g.join().expect("no panic"));
}

/// The first run of `policy` that the model refuses.
fn refused(policy: &'static dyn Policy) -> Option<Failure> {
    let runs = [(1, 0), (1, 1), (2, 0), (2, 1)].into_iter();
    let machine = |(cpus, seed)| Config {
        policy: Some(policy),
        policy_model: Some(|| Box::<Promises>::default()),
        ..of_cpus(cpus, seed)
    };
    runs.map(machine).find_map(|machine| try_run(machine, move || mixture(machine.cpus)).err())
}

#[test]
fn model_refuses_policies_that_break_a_promise() {
    for policy in &WRONG {
        assert!(refused(policy).is_some(), "the model allows this policy: {}", policy.says);
    }
}

#[test]
fn model_allows_policies_that_keep_the_promises() {
    for policy in &RIGHT {
        if let Some(failure) = refused(policy) {
            panic!("the model refuses this policy: {}. It says: {}", policy.says, failure.message);
        }
    }
}

#[test]
fn policy_keeps_the_promises_of_its_model() {
    assert!(WRONG.iter().any(|policy| refused(policy).is_some()), "the model refuses nothing");
    if let Some(failure) = refused(&LabPolicy) {
        panic!("your policy does not keep this promise: {}", failure.message);
    }
    for seed in 0..20 {
        let machine = Config {
            policy: Some(&LabPolicy),
            policy_model: Some(|| Box::<Promises>::default()),
            ..of_cpus([1, 2, 4][seed as usize % 3], seed)
        };
        let ran = try_run(machine, move || tree(seed, 3, sim::block));
        ran.unwrap_or_else(|failure| {
            panic!("seed {seed}: your policy does not keep this promise: {}", failure.message)
        });
    }
}
