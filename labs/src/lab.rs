//! A lab: its holes, its checks and its hints, as `lab.toml` in its folder describes them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::filling::Filling;
use crate::program::Run;
use crate::tree::Program;

/// What `lab.toml` contains.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lab {
    /// The number of the lab, which is the beginning of its folder's name.
    #[serde(skip)]
    pub(crate) number: u32,
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    pub(crate) title: String,
    /// What the student writes, in a few words.
    pub(crate) task: String,
    /// Words that are allowed in its holes, although they are forbidden in those of other labs.
    #[serde(default)]
    pub(crate) allows: Vec<String>,
    /// Whether the tests are compiled with optimisation.
    #[serde(rename = "optimised", default)]
    is_optimised: bool,
    /// Whether the lab can be done in a repository in which the later labs have stand-ins.
    #[serde(rename = "exported", default = "yes")]
    pub(crate) is_exported: bool,
    #[serde(rename = "hole")]
    pub(crate) holes: Vec<Hole>,
    #[serde(rename = "check")]
    pub(crate) checks: Vec<Check>,
    #[serde(rename = "hint", default)]
    pub(crate) hints: Vec<Hint>,
    #[serde(rename = "question", default)]
    pub(crate) questions: Vec<Question>,
    /// The figures that are compared, if the lab is a contest.
    #[serde(rename = "figure", default)]
    pub(crate) figures: Vec<Figure>,
}

fn yes() -> bool {
    true
}

/// A part of a source file that the student writes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hole {
    /// The file, from the root of the workspace.
    pub(crate) file: String,
    /// The name in the markers around the hole.
    pub(crate) name: String,
}

/// A property that the student's code must have, and the tests that show whether it does.
#[derive(Debug, Deserialize)]
pub(crate) struct Check {
    /// The name by which wrong solutions say which checks they fail.
    pub(crate) name: String,
    pub(crate) points: u32,
    /// The property, in one sentence.
    pub(crate) property: String,
    #[serde(flatten)]
    pub(crate) tests: Proof,
    /// What helps to understand a failure: a command, or where to look.
    pub(crate) see: String,
}

/// What shows whether a property holds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Proof {
    /// Tests of `labs/checks`.
    Tests(Vec<String>),
    /// Models, which loom runs in all interleavings with at most two preemptions: the names of their tests, without `models::`.
    Models(Vec<String>),
    /// Runs of the student's program on threads of this computer.
    Threads(Vec<Run>),
    /// Runs of the student's program on the machine.
    Machine(Vec<Run>),
}

/// A question about what the scheduler does. A run answers it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    pub(crate) text: String,
    /// The answers of which one is right. Without them, any words may be an answer.
    #[serde(default)]
    pub(crate) choices: Vec<String>,
    /// The test of `labs/checks` that prints the answer.
    pub(crate) run: String,
    /// Why the answer is what it is.
    pub(crate) why: String,
}

/// A number that a contest compares. A lower one is better.
#[derive(Debug, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: String,
    /// The test of `labs/checks` that prints the number, or the arguments with which the program `contest` prints it on
    /// the machine.
    #[serde(flatten)]
    pub(crate) source: Source,
    /// The number for which there are 100 points.
    pub(crate) par: u64,
    /// The weight of the number in the score.
    pub(crate) weight: u64,
}

/// What prints a number.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    Run(String),
    Machine(Vec<String>),
}

/// A hint, which `cargo lab hint` prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hint {
    pub(crate) text: String,
}

impl Lab {
    /// Reads all labs of the workspace at `root`, in the order of their numbers.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>> {
        let folder = root.join("labs");
        let entries = fs::read_dir(&folder).map_err(|error| Error::file("read", &folder, &error))?;
        let mut labs = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| Error::file("read", &folder, &error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let number = name.split_once('-').and_then(|(number, _)| number.parse().ok());
            if let Some(number) = number.filter(|_| path.join("lab.toml").exists()) {
                labs.push(Self::read(number, path)?);
            }
        }
        labs.sort_by_key(|lab| lab.number);
        Ok(labs)
    }

    fn read(number: u32, folder: PathBuf) -> Result<Self> {
        let path = folder.join("lab.toml");
        let text = fs::read_to_string(&path).map_err(|error| Error::file("read", &path, &error))?;
        let lab: Self = toml::from_str(&text).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
        Ok(Self { number, folder, ..lab })
    }

    /// The program that contains `tests`.
    pub(crate) fn program(&self, tests: &Proof) -> Program {
        match tests {
            Proof::Tests(_) => self.checks(),
            Proof::Models(_) => Program::Models,
            Proof::Threads(_) => Program::OnThreads,
            Proof::Machine(_) => Program::Boot,
        }
    }

    /// The program that contains the tests of `labs/checks`.
    pub(crate) fn checks(&self) -> Program {
        Program::Checks { is_optimised: self.is_optimised }
    }

    /// The sum of the points of all checks.
    pub(crate) fn points(&self) -> u32 {
        self.checks.iter().map(|check| check.points).sum()
    }

    /// The files that have a hole, each once, in the order of the holes.
    pub(crate) fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = Vec::new();
        for hole in &self.holes {
            if !files.contains(&hole.file.as_str()) {
                files.push(&hole.file);
            }
        }
        files
    }

    /// What the holes contain when the student starts.
    pub(crate) fn starter(&self) -> Result<Filling> {
        Filling::read(&self.folder.join("starter.rs"))
    }

    /// What the holes contain for a class that has not come to this lab yet: the parts of `stand_in.rs`, and the
    /// starter for the holes without such a part.
    pub(crate) fn stand_in(&self) -> Result<Filling> {
        let (starter, path) = (self.starter()?, self.folder.join("stand_in.rs"));
        Ok(if path.exists() { starter.with(&Filling::read(&path)?) } else { starter })
    }

    /// What the holes contain in the workspace at `root`, which must not be the starter.
    pub(crate) fn solution(&self, root: &Path) -> Result<Filling> {
        let solution = Filling::of_tree(root, &self.holes)?;
        if solution == self.starter()? {
            return Err(Error::new(format!("lab {} has no solution here: the starter is in its holes", self.number)));
        }
        Ok(solution)
    }

    /// The solutions with typical mistakes, in the order of their names. Each has all holes: those that its file does not
    /// change are as in `solution`.
    pub(crate) fn wrong(&self, solution: &Filling) -> Result<Vec<Wrong>> {
        let folder = self.folder.join("wrong");
        let entries = fs::read_dir(&folder).map_err(|error| Error::file("read", &folder, &error))?;
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        paths.iter().map(|path| Wrong::read(path, solution)).collect()
    }
}

/// A solution with a typical mistake. The grader is tested with it.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) name: String,
    pub(crate) fate: Fate,
    pub(crate) filling: Filling,
}

/// What must become of a wrong solution.
#[derive(Debug)]
pub(crate) enum Fate {
    /// These checks must fail.
    Fails(Vec<String>),
    /// The grader must refuse it. Only for hostile ones.
    Refused,
    /// Together with the grader's files, it must not compile. Only for hostile ones, because a mistake of this kind
    /// teaches nothing.
    DoesNotCompile,
}

impl Wrong {
    /// Whether its author wants to deceive the grader, or to harm it.
    pub(crate) fn is_hostile(&self) -> bool {
        self.name.starts_with("hostile_")
    }

    /// Reads a wrong solution. A line of its header says what must become of it: `//! fails: one, another`, with the
    /// names of the checks, `//! refused` or `//! does not compile`.
    fn read(path: &Path, solution: &Filling) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| Error::file("read", path, &error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let fate = text.lines().find_map(|line| match line {
            "//! refused" => Some(Fate::Refused),
            "//! does not compile" => Some(Fate::DoesNotCompile),
            _ => Some(Fate::Fails(line.strip_prefix("//! fails: ")?.split(", ").map(str::to_string).collect())),
        });
        let Some(fate) = fate else {
            return Err(Error::new(format!("{} has no line that says what it fails", path.display())));
        };
        let wrong = Self { name, fate, filling: solution.changed_by(path)? };
        if !wrong.is_hostile() && !matches!(wrong.fate, Fate::Fails(_)) {
            return Err(Error::new(format!("{} must compile, and fail checks", path.display())));
        }
        Ok(wrong)
    }
}
