//! The commands that the documents show. The tests of `cargo lab`, and those of `cargo run` and `cargo book`, check with this file
//! that the commands accept them.

use std::fs;
use std::path::Path;

use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, MissingRequiredArgument};

/// Checks that `parse` accepts the words after `command` wherever a document shows it. If a document shows only the beginning
/// of a command, `parse` may refuse the words because others are missing at the end.
pub(crate) fn check(command: &str, parse: impl Fn(&[&str]) -> Result<(), clap::Error>) {
    let (mut text, mut count) = (String::new(), 0);
    read(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap(), &mut text);
    for (at, _) in text.match_indices(command) {
        let rest = text[at + command.len()..].split(['\n', '`', '"', '\'', ')']).next().unwrap_or_default();
        // An explanation, or more words for the shell, may follow in the same line.
        let ends = ["  ", " #", " ||", " -->"];
        let rest = ends.iter().fold(rest, |rest, end| rest.split(end).next().unwrap_or_default());
        if !rest.is_empty() && !rest.starts_with(' ') {
            continue;
        }
        count += 1;
        if let Err(error) = parse(&rest.split_whitespace().collect::<Vec<_>>()) {
            let is_beginning = [DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, MissingRequiredArgument]
                .contains(&error.kind());
            assert!(is_beginning, "{command}{rest}: {error}");
        }
    }
    assert!(count > 10, "{command}: {count}");
}

/// Adds the documents in `folder` to `text`, except for CHANGELOG.md, which may name commands that do not exist any more.
fn read(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            read(&path, text);
        } else if name.ends_with(".md") && name != "CHANGELOG.md" {
            *text += &fs::read_to_string(&path).unwrap();
        }
    }
}
