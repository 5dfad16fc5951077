//! What the command prints and writes. It does not depend on the time, so two runs on one computer print the same.

use std::fmt;
use std::path::Path;

use serde_json::json;

use crate::error::Result;
use crate::filling::Filling;
use crate::git;
use crate::lab::{Check, Lab};
use crate::run::{Outcome, Verdict};

/// How many lines of the reason of a failure are printed.
const LINES: usize = 12;

/// The table of the labs.
pub(crate) fn list(labs: &[Lab]) -> String {
    let rows = labs.iter().map(|lab| format!("{:>2}  {}: {}\n", lab.number, lab.title, lab.task));
    rows.collect::<String>() + "\nBegin with `cargo lab start N`; the page of each lab is labs/N-…/README.md\n"
}

/// What `start` prints.
pub(crate) fn started(lab: &Lab) -> String {
    let number = lab.number;
    let mut text =
        format!("Lab {number}, {}: you are on the branch lab-{number}. Yours are the parts between\n", lab.title);
    for hole in &lab.holes {
        text += &format!("  // ANCHOR: {0:<16} and  // ANCHOR_END: {0:<16} in {1}\n", hole.name, hole.file);
    }
    let folder = lab.folder.file_name().unwrap_or_default().to_string_lossy();
    text + &format!("The page: labs/{folder}/README.md\nThen:     cargo lab check {number}\n")
}

/// How far each lab is.
pub(crate) fn status(labs: &[Lab], root: &Path) -> Result<String> {
    let mut text = String::new();
    for lab in labs {
        let stands = match Filling::of_tree(root, &lab.holes) {
            Ok(filling) if filling == lab.starter()? => "the starter is in the holes",
            Ok(filling) if filling == lab.stand_in()? => "simpler code is in the holes, until you come to this lab",
            Ok(_) => "the holes are filled",
            Err(_) => "the markers of a hole are gone",
        };
        let begun = if git::has_begun(root, lab.number)? { "begun" } else { "not begun" };
        text += &format!("{:>2}  {}: {begun}; on this branch, {stands}\n", lab.number, lab.title);
    }
    Ok(text)
}

/// The verdicts of a lab's checks, and the points.
#[derive(Debug)]
pub(crate) struct Grade<'a> {
    lab: &'a Lab,
    /// `None` if the code does not compile.
    verdicts: Option<&'a [Verdict]>,
}

impl<'a> Grade<'a> {
    pub(crate) fn new(lab: &'a Lab, outcome: &'a Outcome) -> Self {
        let verdicts = match outcome {
            Outcome::Checked(verdicts, _) => Some(verdicts.as_slice()),
            Outcome::DoesNotCompile(..) => None,
        };
        Self { lab, verdicts }
    }

    /// Each check with its verdict.
    fn rows(&self) -> impl Iterator<Item = (&Check, Option<&Verdict>)> {
        self.lab.checks.iter().enumerate().map(|(index, check)| (check, self.verdicts.map(|verdicts| &verdicts[index])))
    }

    /// The names of the checks that failed. A check that could not be run here is not one of them.
    pub(crate) fn failed(&self) -> Vec<&str> {
        let failed = self.rows().filter(|(_, verdict)| !verdict.is_some_and(|it| it.is_passed() || it.is_missing()));
        failed.map(|(check, _)| check.name.as_str()).collect()
    }

    /// Whether exactly these checks failed, as far as they could be run here.
    pub(crate) fn fails(&self, names: &[String]) -> bool {
        let is_missing = |name: &String| {
            self.rows().any(|(check, verdict)| check.name == *name && verdict.is_some_and(Verdict::is_missing))
        };
        self.failed() == names.iter().filter(|name| !is_missing(name)).collect::<Vec<_>>()
    }

    /// The names of the checks, each with the word of its verdict.
    pub(crate) fn words(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.rows().map(|(check, verdict)| (check.name.as_str(), verdict.map_or("-", Verdict::word)))
    }

    pub(crate) fn points(&self) -> u32 {
        let passed = self.rows().filter(|(_, verdict)| verdict.is_some_and(Verdict::is_passed));
        passed.map(|(check, _)| check.points).sum()
    }

    /// Gradescope's `results.json`.
    pub(crate) fn to_gradescope(&self) -> String {
        let tests = self.rows().map(|(check, verdict)| {
            let (score, status) = if verdict.is_some_and(Verdict::is_passed) { (check.points, "passed") } else { (0, "failed") };
            let output = verdict.map_or_else(|| "does not compile".to_string(), reason);
            let mut test =
                json!({ "name": check.property, "score": score, "max_score": check.points, "status": status, "output": output });
            // Without a status, Gradescope shows neither of the two colours.
            if verdict.is_some_and(Verdict::is_missing)
                && let Some(fields) = test.as_object_mut()
            {
                fields.remove("status");
            }
            test
        });
        let tests: Vec<_> = tests.collect();
        format!("{:#}\n", json!({ "score": self.points(), "tests": tests }))
    }

    /// What GitHub Classroom's reporter of results reads.
    pub(crate) fn to_classroom(&self) -> String {
        let tests = self.rows().map(|(check, verdict)| {
            let (score, status) =
                if verdict.is_some_and(Verdict::is_passed) { (check.points, "pass") } else { (0, "fail") };
            let message = verdict.map_or_else(|| "does not compile".to_string(), reason);
            json!({ "name": check.property, "status": status, "score": score, "message": message })
        });
        let tests: Vec<_> = tests.collect();
        let status = if self.failed().is_empty() { "pass" } else { "fail" };
        format!("{:#}\n", json!({ "version": 1, "status": status, "max_score": self.lab.points(), "tests": tests }))
    }
}

/// Returns the first [`LINES`] lines of the text of a verdict, and says how many more it has.
fn reason(verdict: &Verdict) -> String {
    let text = verdict.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines[..lines.len().min(LINES)].join("\n");
    if lines.len() > LINES { format!("{shown}\n… and {} more lines", lines.len() - LINES) } else { shown }
}

impl fmt::Display for Grade<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "Lab {}: {}\n", self.lab.number, self.lab.title)?;
        for (check, verdict) in self.rows() {
            let word = verdict.map_or("-", Verdict::word);
            let points = if verdict.is_some_and(Verdict::is_passed) { check.points } else { 0 };
            writeln!(formatter, "{word:<7} {points:>3} of {:>2}  {}", check.points, check.property)?;
            if let Some(verdict) = verdict.filter(|verdict| !verdict.is_passed()) {
                for line in reason(verdict).lines().chain([format!("See: {}", check.see).as_str()]) {
                    writeln!(formatter, "{:>19}{line}", "")?;
                }
            }
        }
        let compiles = if self.verdicts.is_none() { "; the code does not compile" } else { "" };
        writeln!(formatter, "\n{} of {} points{compiles}", self.points(), self.lab.points())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Grade;
    use crate::lab::Lab;
    use crate::run::{Outcome, Verdict};

    #[test]
    fn points_are_in_the_files_for_both_systems() {
        let check = |name, points| {
            format!("[[check]]\nname = '{name}'\npoints = {points}\nproperty = 'Of {name}'\ntests = ['a']\nsee = ''\n")
        };
        let text = format!("title = ''\ntask = ''\nhole = []\n{}{}", check("one", 60), check("two", 40));
        let lab: Lab = toml::from_str(&text).unwrap();
        let failed = Verdict::Failed { test: "a".to_string(), reason: "why".to_string() };
        let outcome = Outcome::Checked(vec![Verdict::Passed, failed], String::new());
        let grade = Grade::new(&lab, &outcome);
        let classroom: Value = serde_json::from_str(&grade.to_classroom()).unwrap();
        assert_eq!(classroom["max_score"], 100);
        assert_eq!(classroom["status"], "fail");
        let tests = json!([
            { "name": "Of one", "status": "pass", "score": 60, "message": "" },
            { "name": "Of two", "status": "fail", "score": 0, "message": "a: why" },
        ]);
        assert_eq!(classroom["tests"], tests);
        let gradescope: Value = serde_json::from_str(&grade.to_gradescope()).unwrap();
        assert_eq!((&gradescope["score"], &gradescope["tests"][1]["output"]), (&json!(60), &json!("a: why")));
    }
}
