//! Reads the mutants from `list`, where each concept has a file. A paragraph of such a file is one mutant: the file in
//! `gmp-sched/src` and a description of the change, its catcher, and the change as a diff. The first paragraph says what the
//! mutants of the file are about.

use std::{fmt, fs};

use crate::crate_directory;

/// The tests that must detect a mutant.
pub(crate) enum Catcher {
    /// `models::name`: loom models whose path contains this name.
    Models(String),
    /// `file: name with n seeds`: the tests in `tests/file` whose names contain `name`, of this crate or of `thread-tests`.
    /// Simulated programs are run with `n` seeds.
    Tests { file: String, name: String, seeds: Option<String> },
    /// `properties: name`: property tests, in `tests/run_queue.rs` or in the source, whose names contain this name.
    Properties(String),
    /// `nobody: reason`: no test, because the mutant behaves as the original does.
    Nobody(String),
}

impl Catcher {
    fn read(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("models::") {
            return Some(Self::Models(name.to_string()));
        }
        let (file, name) = text.split_once(": ")?;
        Some(match file {
            "properties" => Self::Properties(name.to_string()),
            "nobody" => Self::Nobody(name.to_string()),
            _ => {
                let (name, seeds) = name.split_once(" with ").map_or((name, None), |(name, seeds)| (name, Some(seeds)));
                let seeds = seeds.map(|seeds| seeds.trim_end_matches(" seeds").trim_end_matches(" seed").to_string());
                Self::Tests { file: file.to_string(), name: name.to_string(), seeds }
            }
        })
    }
}

/// One small change of the source, which the tests named by `catcher` must detect.
pub(crate) struct Mutant {
    /// A description of the change.
    pub(crate) what: String,
    /// The file in `gmp-sched/src`.
    pub(crate) file: String,
    /// The code to be replaced: the lines of the diff without `+`. This code occurs exactly once in the file. Comments and
    /// whitespace are not compared.
    pub(crate) from: String,
    /// The code that replaces `from` and the comments within it: the lines of the diff without `-`.
    pub(crate) to: String,
    pub(crate) catcher: Catcher,
}

impl Mutant {
    fn read(paragraph: &str) -> Option<Self> {
        let is_code = |line: &&str| line.starts_with([' ', '-', '+']);
        let words: Vec<&str> = paragraph.lines().filter(|line| !is_code(line)).collect();
        let words = words.join(" ");
        let (change, catcher) = words.split_once(" caught by ")?;
        let (file, what) = change.split_once(": ")?;
        let without = |sign: char| {
            let lines = paragraph.lines().filter(|line| is_code(line) && !line.starts_with(sign));
            lines.map(|line| &line[1..]).collect::<Vec<_>>().join("\n")
        };
        Some(Self {
            what: what.to_string(),
            file: file.to_string(),
            from: without('+'),
            to: without('-'),
            catcher: Catcher::read(catcher)?,
        })
    }

    /// Whether the mutant's file, its description or the name of its catcher contains `words`.
    pub(crate) fn is_called(&self, words: &str) -> bool {
        let catcher = match &self.catcher {
            Catcher::Models(name) | Catcher::Tests { name, .. } | Catcher::Properties(name) => name,
            Catcher::Nobody(_) => "",
        };
        self.to_string().contains(words) || catcher.contains(words)
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

/// Returns all mutants, in the order of the files' names.
pub(crate) fn mutants() -> Vec<Mutant> {
    let list = crate_directory().join("tests/mutants/list");
    let entries = fs::read_dir(&list).expect("the list of mutants can be read");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the list of mutants can be read").path()).collect();
    files.sort();
    let mut mutants = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("the list of mutants can be read");
        let paragraphs = text.split("\n\n").skip(1);
        mutants.extend(paragraphs.map(|paragraph| {
            Mutant::read(paragraph).unwrap_or_else(|| panic!("{}: this is no mutant:\n{paragraph}", file.display()))
        }));
    }
    mutants
}
