//! Checks that the tests detect errors in the source. Each mutant is one small change of the source, for example a
//! weakened ordering, a removed fence, or two steps in another order. Each mutant names its *catcher*: the tests that
//! must detect it. The test applies the mutant to a copy of the source, and the catcher must then fail. A few mutants
//! behave as the original does. They have no catcher, and state the reason instead.
//!
//! `cargo test -p gmp-sched --test mutants -- --ignored --nocapture` runs all mutants, and prints a table of the
//! mutants and the tests that caught them. This takes half an hour on two processors. `GMP_MUTANTS=idle.rs` runs
//! the mutants of one file, `GMP_MUTANTS="a fence"` runs the mutants whose description contains these words,
//! `GMP_MUTANTS=device_signals::` runs the mutants that the models in `device_signals` catch, and
//! `GMP_MUTANTS="idle.rs|a fence"` runs the mutants that match either of the two.
//!
//! The list of mutants is in `list`, as diffs. A mutant contains the code that it replaces. If that code changes in
//! the source, the mutant no longer fits the source, and no ordinary test reports this. So CI checks that each mutant in
//! `list` still fits the source and that its catcher exists: `cargo test -p gmp-sched --test mutants`. This takes a
//! second and builds no mutant.
#![cfg(not(gmp_loom))]

mod catchers;
mod checks;
mod copy;
mod fit;
mod list;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use copy::{Copy, Fate};
use list::{Mutant, mutants};

fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The result of testing one mutant: a row of the table.
struct Outcome<'a> {
    mutant: &'a Mutant,
    fate: Fate,
    took: Duration,
}

impl Outcome<'_> {
    fn is_as_expected(&self) -> bool {
        matches!(self.fate, Fate::Caught(_) | Fate::Equivalent(_))
    }

    fn show(&self) {
        let (mutant, seconds) = (self.mutant, self.took.as_secs_f32());
        match &self.fate {
            Fate::Caught(by) => println!("caught    {seconds:5.1} s  {mutant}: {}", by.join(", ")),
            Fate::Survived => println!("SURVIVED  {seconds:5.1} s  {mutant}"),
            Fate::Void(reason) => println!("VOID      {seconds:5.1} s  {mutant}: {reason}"),
            Fate::Equivalent(argument) => println!("equivalent         {mutant}: {argument}"),
        }
    }
}

#[test]
#[ignore = "builds the crate once for every mutant: minutes"]
fn every_mutant_is_caught() {
    let wanted = env::var("GMP_MUTANTS").unwrap_or_default();
    let mut mutants = mutants();
    mutants.retain(|mutant| wanted.split('|').any(|words| mutant.is_called(words)));
    assert!(!mutants.is_empty(), "no mutant is called \"{wanted}\"");
    // Two workers run at the same time, so that all processors are busy even while the cargo of one worker uses a
    // single processor.
    let workers = thread::available_parallelism().map_or(1, usize::from).clamp(1, 2).min(mutants.len());
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for worker in 0..workers {
            let (mutants, next, outcomes) = (&mutants, &next, &outcomes);
            scope.spawn(move || {
                let copy = Copy::new(worker).expect("the source can be copied");
                while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    let fate = copy.try_mutant(mutant);
                    let outcome = Outcome { mutant, fate, took: start.elapsed() };
                    outcome.show();
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    summarize(&mutants, &outcomes);
    let bad: Vec<_> = outcomes.iter().filter(|outcome| !outcome.is_as_expected()).collect();
    assert!(bad.is_empty(), "{} of {} mutants were not caught", bad.len(), outcomes.len());
}

/// Prints a table of the mutants that were tested, in the order of the list.
fn summarize(mutants: &[Mutant], outcomes: &[Outcome<'_>]) {
    println!("\n{} mutants:", outcomes.len());
    for mutant in mutants {
        outcomes.iter().filter(|outcome| std::ptr::eq(outcome.mutant, mutant)).for_each(Outcome::show);
    }
    let count = |is: fn(&Fate) -> bool| outcomes.iter().filter(|outcome| is(&outcome.fate)).count();
    println!(
        "{} caught, {} equivalent, {} survived, {} void",
        count(|fate| matches!(fate, Fate::Caught(_))),
        count(|fate| matches!(fate, Fate::Equivalent(_))),
        count(|fate| matches!(fate, Fate::Survived)),
        count(|fate| matches!(fate, Fate::Void(_))),
    );
}
