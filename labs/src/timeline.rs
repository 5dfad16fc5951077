//! The timeline of a run that failed: the test runs once more, with a trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::run::{Outcome, Verdict, test};
use crate::tree::{Program, Tree};

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
            convert(tree.root(), &trace, &file)?;
            pages.push((check.name.clone(), file.with_extension("html")));
        }
    }
    Ok(pages)
}

/// Makes the pages `file`.html and `file`.json of a trace, and removes the trace.
pub(crate) fn convert(root: &Path, trace: &Path, file: &Path) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "-p", "timeline", "--example", "convert", "--"]).arg(trace).arg(file);
    let output = cargo.current_dir(root).output().map_err(|error| Error::new(format!("cannot run cargo: {error}")))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::new(format!("the timeline could not be drawn: {message}")));
    }
    fs::remove_file(trace).map_err(|error| Error::file("remove", trace, &error))
}
