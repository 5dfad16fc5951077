//! Finds the tests that belong to the catcher of a mutant (the tests that must detect the mutant). The names of the
//! tests are read from the source, so this needs no build.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::crate_directory;
use crate::list::{Catcher, Mutant};

/// Returns the names of the tests in a source file. Each function that follows a test attribute is a test, even if it
/// is in a macro. So is each function that the macro `shared_test` turns into a test.
fn tests_in(source: &str) -> Vec<&str> {
    let mut is_test = false;
    let mut tests = Vec::new();
    for line in source.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if let Some(function) = line.strip_prefix("fn ") {
            let name = function.split(['(', '<']).next();
            tests.extend(name.filter(|_| is_test));
            is_test = false;
        } else if let Some(function) = line.strip_prefix("shared_test!(") {
            tests.extend(function.split(',').next());
        }
    }
    tests
}

/// Returns the paths and names of all tests in a directory of the crate, for example `models::idle::a_name`.
fn tests_below(directory: &Path, path: &str) -> io::Result<Vec<String>> {
    let mut tests = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?.path();
        let name = entry.file_stem().unwrap_or_default().to_string_lossy();
        let path = if name == "mod" || name == "lib" { path.to_string() } else { format!("{path}{name}::") };
        if entry.is_dir() {
            tests.extend(tests_below(&entry, &path)?);
        } else {
            tests.extend(tests_in(&fs::read_to_string(&entry)?).into_iter().map(|test| path.clone() + test));
        }
    }
    Ok(tests)
}

/// The names of the tests that [`Catcher::Models`] and [`Catcher::Properties`] may name. (The tests that other catchers
/// name are read from the file of the catcher.)
pub(crate) struct Catchers {
    models: Vec<String>,
    properties: Vec<String>,
}

impl Catchers {
    pub(crate) fn of_the_source() -> io::Result<Self> {
        let source = crate_directory().join("src");
        let (models, mut properties): (Vec<_>, Vec<_>) =
            tests_below(&source, "")?.into_iter().partition(|test| test.starts_with("models::"));
        let queue = fs::read_to_string(crate_directory().join("tests/run_queue.rs"))?;
        properties.extend(tests_in(&queue).into_iter().map(str::to_string));
        Ok(Self { models, properties })
    }

    pub(crate) fn models(&self) -> &[String] {
        &self.models
    }

    /// Returns the tests in a file in `tests` of this package or of `thread-tests`, and in the files in `tests/shared` that
    /// it names as its modules.
    pub(crate) fn in_file(&self, file: &str) -> Vec<String> {
        let folders = ["tests", "../thread-tests/tests"].map(|folder| crate_directory().join(folder));
        let read_in = |folder: &PathBuf, path: &str| fs::read_to_string(folder.join(path).with_extension("rs")).ok();
        let read = |path: &str| folders.iter().find_map(|folder| read_in(folder, path)).unwrap_or_default();
        let source = read(file);
        let paths = source.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
        let shared = paths.filter(|path| path.contains("/shared/")).map(read).collect::<String>();
        tests_in(&source).into_iter().chain(tests_in(&shared)).map(str::to_string).collect()
    }

    /// Returns the tests that must detect `mutant`.
    pub(crate) fn of(&self, mutant: &Mutant) -> Vec<String> {
        let containing = |tests: &[String], words: &str| -> Vec<String> {
            tests.iter().filter(|test| test.contains(words)).cloned().collect()
        };
        match &mutant.catcher {
            Catcher::Models(path) => containing(&self.models, &format!("models::{path}")),
            Catcher::Properties(name) => containing(&self.properties, name),
            Catcher::Tests { file, name, .. } => containing(&self.in_file(file), name),
            Catcher::Nobody(_) => Vec::new(),
        }
    }
}
