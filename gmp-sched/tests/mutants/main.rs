//! Does a model or a simulated program notice when the engine is broken? Each mutant is one small change: a weakened
//! ordering, a dropped fence or re-check, two steps swapped. It is applied to a copy of the source, and what is named
//! as its catcher must then fail.
//!
//! `cargo test -p gmp-sched --test mutants -- --ignored --nocapture` runs all of them, which takes some five minutes on two
//! processors, and shows in the end what was caught by what; `GMP_MUTANTS=idle.rs` runs those of one file,
//! `GMP_MUTANTS="a fence"` those whose description contains the words, `GMP_MUTANTS=poller::` those of some models, and
//! `GMP_MUTANTS="idle.rs|a fence"` what either would.
//!
//! That all mutants still fit the source is an ordinary test, and so is that every model has a mutant that it alone has to
//! catch. Whoever changes a text that a mutant replaces changes the mutant along with it; whoever adds a model adds one.
#![cfg(not(gmp_loom))]

mod catchers;
mod copy;
mod list;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use catchers::Catchers;
use copy::{Copy, Fate};
use list::{Catcher, Mutant, mutants};

fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The source of the file that `mutant` changes, with the change.
fn mutate(mutant: &Mutant, of: &Path) -> Result<String, String> {
    let path = of.join("src").join(mutant.file);
    let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match source.matches(mutant.from).count() {
        1 => Ok(source.replacen(mutant.from, mutant.to, 1)),
        count => Err(format!(
            "the mutant \"{mutant}\" no longer fits the source: what it replaces is there {count} times. Change the mutant \
             in gmp-sched/tests/mutants/list along with the source:\n{}",
            mutant.from
        )),
    }
}

/// Needs no build of a mutant.
#[test]
fn every_mutant_fits_the_source() {
    let misfits: Vec<_> = mutants().filter_map(|mutant| mutate(mutant, crate_directory()).err()).collect();
    assert!(misfits.is_empty(), "{}", misfits.join("\n\n"));
}

/// A mutant whose catcher has another name by now would be caught by nobody.
#[test]
fn every_mutant_has_a_catcher() {
    let catchers = Catchers::of_the_source().expect("the source can be read");
    let is_alone = |mutant: &&Mutant| !matches!(mutant.catcher, Catcher::Nobody(_)) && catchers.of(mutant).is_empty();
    let alone: Vec<_> = mutants().filter(is_alone).map(Mutant::to_string).collect();
    assert!(alone.is_empty(), "what is to catch these is not there: {alone:#?}");
}

/// A model that need not catch anything by itself may see nothing.
#[test]
fn every_model_has_a_mutant_of_its_own() {
    let catchers = Catchers::of_the_source().expect("the source can be read");
    let caught: Vec<_> = mutants().map(|mutant| catchers.of(mutant)).collect();
    let has_none = |model: &&String| !caught.iter().any(|by| matches!(&by[..], [only] if only == *model));
    let idle: Vec<_> = catchers.models().iter().filter(has_none).collect();
    assert!(!catchers.models().is_empty(), "no model is found");
    assert!(idle.is_empty(), "no mutant names these models alone as its catcher: {idle:#?}");
}

/// Two of the same description could not be told apart in the table.
#[test]
fn every_mutant_has_a_name_of_its_own() {
    let mut names: Vec<_> = mutants().map(Mutant::to_string).collect();
    names.sort();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// A line of the table.
struct Outcome {
    mutant: &'static Mutant,
    fate: Fate,
    took: Duration,
}

impl Outcome {
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
    let mutants: Vec<&'static Mutant> =
        mutants().filter(|mutant| wanted.split('|').any(|words| mutant.is_called(words))).collect();
    assert!(!mutants.is_empty(), "no mutant is called \"{wanted}\"");
    // Two are in the middle of their builds or runs at a time: some of what they do, cargo does one after the other.
    let workers = thread::available_parallelism().map_or(1, usize::from).clamp(1, 2).min(mutants.len());
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for worker in 0..workers {
            let (mutants, next, outcomes) = (&mutants, &next, &outcomes);
            scope.spawn(move || {
                let copy = Copy::new(worker).expect("the source can be copied");
                while let Some(&mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
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
    summarize(&outcomes);
    let bad: Vec<_> = outcomes.iter().filter(|outcome| !outcome.is_as_expected()).collect();
    assert!(bad.is_empty(), "{} of {} mutants were not caught", bad.len(), outcomes.len());
}

/// The table, in the order of the list.
fn summarize(outcomes: &[Outcome]) {
    println!("\n{} mutants:", outcomes.len());
    for mutant in mutants() {
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
