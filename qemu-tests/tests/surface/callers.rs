//! A panic that reports misuse must name the line of the caller, not a line of the library. So every public function
//! whose documentation has a section "Panics" must be `#[track_caller]`. This test checks this rule. The functions
//! that such a function calls must be `#[track_caller]`, too. `thread-tests/tests/threads/misuse/callers.rs` checks this
//! by making the calls.

use std::fs;
use std::path::Path;

use crate::in_project;

/// Sources whose functions a program does not call: the simulator, and the models.
const LEFT_OUT: &[&str] = &["gmp-sched/src/sim", "gmp-sched/src/models"];

/// Calls `read` with the path and the text of each source file below `folder`.
fn for_each_source(folder: &Path, read: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if !LEFT_OUT.iter().any(|left_out| path.ends_with(left_out)) {
                for_each_source(&path, read);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            read(&path, &fs::read_to_string(&path).expect("text"));
        }
    }
}

/// Returns the first line of each public function whose documentation has a section "Panics" and that is not
/// `#[track_caller]`.
fn without_caller(text: &str) -> Vec<&str> {
    let (mut may_panic, mut tracks_caller) = (false, false);
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("///") {
            may_panic |= line == "/// # Panics";
        } else if line.starts_with("#[") {
            tracks_caller |= line == "#[track_caller]";
        } else {
            let is_function =
                ["pub fn ", "pub unsafe fn ", "pub const fn "].iter().any(|start| line.starts_with(start));
            if is_function && may_panic && !tracks_caller {
                found.push(line);
            }
            (may_panic, tracks_caller) = (false, false);
        }
    }
    found
}

#[test]
fn public_functions_that_may_panic_track_their_callers() {
    let mut found = Vec::new();
    for folder in ["gmp-sched/src", "kernel/src"] {
        for_each_source(&in_project(folder), &mut |path, text| {
            found.extend(without_caller(text).into_iter().map(|line| format!("{}: {line}", path.display())));
        });
    }
    assert!(found.is_empty(), "without `#[track_caller]`:\n{}", found.join("\n"));
}

#[test]
fn function_without_the_attribute_is_found() {
    let panics = "/// Does it.\n///\n/// # Panics\n///\n/// Always.\n";
    let function = "pub fn does_it() {}\n";
    assert_eq!(without_caller(&format!("{panics}#[inline]\n{function}")), ["pub fn does_it() {}"]);
    assert!(without_caller(&format!("{panics}#[inline]\n#[track_caller]\n{function}")).is_empty());
    assert!(without_caller(&format!("{panics}fn private() {{}}\n{function}")).is_empty());
}
