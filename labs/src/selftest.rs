//! Tests the labs and the grader, in the repository of a class (an *exported* one) and in this one. The starter gets at
//! most a tenth of the points, and no warning of the compiler. The solution gets all points. Each wrong solution fails
//! exactly the checks that its first lines name. Each question has the same answer in both repositories, and this
//! answer is one of its choices, if it has any.

use std::path::Path;

use crate::error::{Error, Result};
use crate::export;
use crate::filling::Filling;
use crate::lab::{Fate, Lab, Wrong};
use crate::report::Grade;
use crate::run::{Outcome, answer, check};
use crate::tree::Tree;

/// A quick test judges only this many wrong solutions, and the hostile ones. If the lab can be exported, it judges the hostile
/// ones in this repository, and everything else in the exported one.
const QUICK: usize = 2;

/// Tests `labs`, or `only` one of them, and prints each result. Returns whether all are as they should be.
pub(crate) fn run(labs: &[Lab], only: Option<&Lab>, root: &Path, quick: bool) -> Result<bool> {
    let mut is_right = true;
    for lab in labs.iter().filter(|lab| only.is_none_or(|only| only.number == lab.number)) {
        let tree = Tree::copy_of(root)?;
        let (starter, solution) = (lab.starter()?, lab.solution(root)?);
        // `is_expected` gets the warnings of the compiler, or `None` if the code does not compile.
        let judge = |name: &str, filling: &Filling, is_expected: &dyn Fn(&Grade<'_>, Option<&str>) -> bool| {
            filling.check(&lab.holes, &lab.allows).map_err(|reason| Error::new(format!("{name}: {reason}")))?;
            filling.fill(tree.root(), &lab.holes)?;
            let outcome = check(lab, &tree)?;
            let grade = Grade::new(lab, &outcome);
            let (is_as_expected, said) = match &outcome {
                Outcome::Checked(_, warnings) => (is_expected(&grade, Some(warnings)), warnings),
                Outcome::DoesNotCompile(_, refusal) => (is_expected(&grade, None), &refusal.text),
            };
            let word = word(is_as_expected);
            let (points, failed) = (grade.points(), grade.failed().join(", "));
            println!("{word}  lab {} {name:<34} {points:>3} points; fails: {failed}", lab.number);
            if !is_as_expected {
                print!("{grade}{said}");
            }
            Ok(is_as_expected)
        };
        let judge_starter = |name| {
            judge(name, &starter, &|grade, warnings| 10 * grade.points() <= lab.points() && warnings == Some(""))
        };
        let (hostile, mistaken): (Vec<_>, Vec<_>) = lab.wrong(&solution)?.into_iter().partition(Wrong::is_hostile);
        let mut exported = vec![None; lab.questions.len()];
        if lab.is_exported {
            export::remove_solutions(labs, lab, tree.root())?;
            is_right &= judge_starter("starter, exported")?;
            is_right &= judge("solution, exported", &solution, &|grade, _| grade.failed().is_empty())?;
            // A check might miss a mistake here that it finds in this repository, because the holes of later labs have
            // stand-ins.
            for wrong in mistaken.iter().take(if quick { QUICK } else { mistaken.len() }) {
                let Fate::Fails(fails) = &wrong.fate else { continue };
                is_right &= judge(&format!("{}, exported", wrong.name), &wrong.filling, &|grade, warnings| {
                    warnings.is_some() && grade.fails(fails)
                })?;
            }
            solution.fill(tree.root(), &lab.holes)?;
            exported = answers(lab, &tree)?;
            is_right &= exported.iter().all(Option::is_some);
        } else {
            is_right &= judge_starter("starter")?;
        }
        tree.renew(root)?;
        let count = match (quick, lab.is_exported) {
            (true, true) => 0,
            (true, false) => QUICK,
            (false, _) => mistaken.len(),
        };
        for wrong in mistaken.iter().take(count).chain(&hostile) {
            is_right &= match &wrong.fate {
                Fate::Fails(fails) => judge(&wrong.name, &wrong.filling, &|grade, warnings| {
                    // A wrong solution that does not compile fails all checks, but does not test them.
                    warnings.is_some() && grade.fails(fails)
                })?,
                Fate::DoesNotCompile => judge(&wrong.name, &wrong.filling, &|_, warnings| warnings.is_none())?,
                Fate::Refused => {
                    let refusal = wrong.filling.check(&lab.holes, &lab.allows);
                    let is_refused = refusal.is_err();
                    let reason = refusal.err().unwrap_or_default();
                    println!("{}  lab {} {}: {reason}", word(is_refused), lab.number, wrong.name);
                    is_refused
                }
            };
        }
        if quick && lab.is_exported {
            continue;
        }
        is_right &= judge("solution", &solution, &|grade, _| grade.failed().is_empty())?;
        for (question, (here, there)) in lab.questions.iter().zip(answers(lab, &tree)?.into_iter().zip(exported)) {
            let is_same = here.as_ref().is_some_and(|here| question.may_be(here)) && here == there;
            is_right &= is_same;
            let [here, there] = [here, there].map(|answer| answer.unwrap_or_else(|| "no answer".to_string()));
            println!("{}  lab {} {}: {here}, and exported {there}", word(is_same), lab.number, question.run);
        }
    }
    Ok(is_right)
}

/// The answers to the questions of `lab`, by the scheduler in `tree`.
fn answers(lab: &Lab, tree: &Tree) -> Result<Vec<Option<String>>> {
    let Ok(built) = tree.build(lab.checks()) else { return Ok(vec![None; lab.questions.len()]) };
    lab.questions.iter().map(|question| answer(&built.path, &question.run, None)).collect()
}

fn word(is_as_expected: bool) -> &'static str {
    if is_as_expected { "right" } else { "WRONG" }
}
