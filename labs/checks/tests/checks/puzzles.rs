//! Lab 0: the answers to the puzzles. For each name in an answer, a run without it (or, at the dinner, with its two locks in
//! the other order) must not have the symptom.

use std::panic;

use gmp_sched::sim::{self, Sim};
use lab_puzzles::answers::{BLOCKS, DEADLOCKED, PREEMPTED, WRONG_FUNCTION};
use lab_puzzles::{ANIMALS, Acts, FUNCTIONS, PEOPLE, crowd, dinner, statistics};

use crate::machine::{of_cpus, run, try_run};

/// Checks that `answer` names exactly those of `all` without which there is no `symptom`: `has_symptom` runs the program
/// without the one that it gets, or with all if it gets "". If names are missing, the message does not give them away.
fn compare(symptom: &str, all: &[&str], answer: &[&str], has_symptom: impl Fn(&str) -> bool) {
    assert!(has_symptom(""), "with all of {all:?}, there should be {symptom}");
    for name in answer {
        assert!(all.contains(name), "`{name}` is none of {all:?}");
        assert!(!has_symptom(name), "{symptom}: it is the same without `{name}`");
    }
    let others = all.iter().filter(|name| !answer.contains(name) && !has_symptom(name)).count();
    assert!(others == 0, "{symptom}: there are {others} more who have a part in it");
}

#[test]
fn wrong_function_is_found() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let results = FUNCTIONS.map(|name| panic::catch_unwind(|| statistics(name)).is_err());
    let all = panic::catch_unwind(|| statistics("")).is_err();
    panic::set_hook(hook);
    compare("a panic", &FUNCTIONS, &[WRONG_FUNCTION], |without| {
        FUNCTIONS.iter().position(|name| *name == without).map_or(all, |at| results[at])
    });
}

#[test]
fn deadlock_is_found() {
    compare("a deadlock", &PEOPLE, DEADLOCKED, |reversed| {
        let reversed = PEOPLE.into_iter().find(|name| *name == reversed).unwrap_or("");
        (0..5).any(|seed| try_run(of_cpus(2, seed), move || dinner::<Sim>(reversed)).is_err())
    });
}

/// Counts something in runs of all animals except `without`.
fn count(without: &str, counted: impl Fn(&sim::Report) -> u64) -> u64 {
    let without = ANIMALS.into_iter().find(|name| *name == without).unwrap_or("");
    let acts = Acts { work: sim::work, block: sim::block };

    (0..5).map(|seed| counted(&run(of_cpus(1, seed), move || crowd::<Sim>(acts, without)))).sum()
}

#[test]
fn preempted_g_is_found() {
    compare("a preemption", &ANIMALS, &[PREEMPTED], |without| count(without, |report| report.counts.preemptions) > 0);
}

#[test]
fn blocking_g_is_found() {
    compare("a handoff", &ANIMALS, &[BLOCKS], |without| count(without, |report| report.counts.handoffs) > 0);
}
