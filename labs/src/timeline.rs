//! The timeline of a run that failed: the test runs once more, with a trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::run::{Outcome, Verdict, test};
use crate::tree::{NotBuilt, Program, Tree};

/// Draws the timeline of each check of `lab` that failed on a simulated machine. Returns the names of the checks, and the
/// pages. A run that hangs has no timeline.
pub(crate) fn draw(lab: &Lab, tree: &Tree, outcome: &Outcome) -> Result<Vec<(String, PathBuf)>> {
    let mut pages = Vec::new();
    let Outcome::Checked(verdicts, _) = outcome else { return Ok(pages) };
    let mut built = None;
    for (check, verdict) in lab.checks.iter().zip(verdicts) {
        let (Verdict::Failed { test: name, .. } | Verdict::Panicked { test: name, .. }) = verdict else { continue };
        if !matches!(lab.program(&check.tests), Program::Checks { .. }) {
            continue;
        }
        let file = tree.root().join(format!("target/lab/lab-{}-{}", lab.number, check.name));
        let trace = file.with_extension("trace");
        let Some(program) = built.get_or_insert_with(|| tree.build(lab.checks()).ok()) else { continue };
        test(&program.path, name, Some(&trace))?;
        // Tests that need no machine write no trace.
        if trace.exists() {
            convert(tree, &trace, &file)?;
            pages.push((check.name.clone(), file.with_extension("html")));
        }
    }
    Ok(pages)
}

/// Makes the pages `file`.html and `file`.json of a trace, and removes the trace.
pub(crate) fn convert(tree: &Tree, trace: &Path, file: &Path) -> Result<()> {
    let fails = |message: &str| Error::new(format!("the timeline could not be drawn: {message}"));
    let program = tree.build(Program::Converter).map_err(|error| match error {
        NotBuilt::DoesNotCompile(refusal) => fails(&refusal.text),
        NotBuilt::Error(error) => error,
    })?;
    let output = Command::new(&program.path).args([trace, file]).output();
    let output = output.map_err(|error| Error::file("run", &program.path, &error))?;
    if !output.status.success() {
        return Err(fails(&String::from_utf8_lossy(&output.stderr)));
    }
    fs::remove_file(trace).map_err(|error| Error::file("remove", trace, &error))
}
