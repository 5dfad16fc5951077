//! Checks the list of mutants without building a mutant. CI runs these checks. An ordinary `cargo test` leaves out this
//! test target, so that a change of the engine fails only the tests of the parts that it breaks.

use crate::catchers::Catchers;
use crate::crate_directory;
use crate::fit::mutate;
use crate::list::{Catcher, Mutant, mutants};

#[test]
fn every_mutant_fits_the_source() {
    let misfits: Vec<_> = mutants().iter().filter_map(|mutant| mutate(mutant, crate_directory()).err()).collect();
    assert!(misfits.is_empty(), "{}", misfits.join("\n\n"));
}

/// A catcher names the tests that must detect a mutant. If these tests have been renamed, no test runs for the
/// mutant, so the mutant would go undetected.
#[test]
fn every_mutant_has_a_catcher() {
    let catchers = Catchers::of_the_source().expect("the source can be read");
    let has_none = |mutant: &&Mutant| !matches!(mutant.catcher, Catcher::Nobody(_)) && catchers.of(mutant).is_empty();
    let uncaught: Vec<_> = mutants().iter().filter(has_none).map(Mutant::to_string).collect();
    assert!(uncaught.is_empty(), "no test has the name of the catcher of these mutants: {uncaught:#?}");
}

/// For each model there must be a mutant whose catcher is that model alone. Without such a mutant, it would be unknown
/// whether the model can fail at all.
#[test]
fn every_model_has_a_mutant_of_its_own() {
    let catchers = Catchers::of_the_source().expect("the source can be read");
    let caught: Vec<_> = mutants().iter().map(|mutant| catchers.of(mutant)).collect();
    let has_none = |model: &&String| !caught.iter().any(|by| matches!(&by[..], [only] if only == *model));
    let models: Vec<_> = catchers.models().iter().filter(has_none).collect();
    assert!(!catchers.models().is_empty(), "no model is found");
    assert!(models.is_empty(), "no mutant names one of these models alone as its catcher: {models:#?}");
}

/// For each explored program in `tests/composition.rs` there must be a mutant whose catcher is that program alone. The
/// tests in [`EXPLORATION`] check the exploration itself, so they need no mutant.
#[test]
fn every_explored_program_has_a_mutant_of_its_own() {
    let catchers = Catchers::of_the_source().expect("the source can be read");
    let is_explored = |mutant: &Mutant| matches!(&mutant.catcher, Catcher::Tests { file, .. } if file == "composition");
    let caught: Vec<_> =
        mutants().iter().filter(|mutant| is_explored(mutant)).map(|mutant| catchers.of(mutant)).collect();
    let is_caught_by = |program: &String| caught.iter().any(|by| matches!(&by[..], [only] if only == program));
    let tests = catchers.in_file("composition");
    let programs = tests.iter().filter(|test| !EXPLORATION.contains(&test.as_str()));
    let programs: Vec<_> = programs.filter(|program| !is_caught_by(program)).collect();
    assert_eq!(EXPLORATION.iter().filter(|name| tests.iter().any(|test| test == *name)).count(), EXPLORATION.len());
    assert!(programs.is_empty(), "no mutant names one of these programs alone as its catcher: {programs:#?}");
}

/// The tests of the exploration itself in `tests/composition.rs`.
const EXPLORATION: [&str; 3] =
    ["pruning_misses_no_state", "reduction_misses_no_situation", "deadlock_in_one_order_is_found"];

/// The table of results identifies mutants by their descriptions, so each description must be unique.
#[test]
fn every_mutant_has_a_description_of_its_own() {
    let mut names: Vec<_> = mutants().iter().map(Mutant::to_string).collect();
    names.sort();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
