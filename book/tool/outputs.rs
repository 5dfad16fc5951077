//! The outputs that chapters show. A line `<!-- output: COMMAND -->` says which command has printed the block of text
//! below it. `cargo book outputs` runs the commands and writes what they print.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::chapters::{Chapters, read};
use crate::error::{Error, Result};
use crate::experiments::Experiment;

const BEGIN: &str = "<!-- output: ";
const END: &str = " -->\n";
const OPEN: &str = "```text\n";
const CLOSE: &str = "```\n";

/// The commands that are run.
#[derive(Debug)]
pub(crate) enum Extent {
    /// Only `cargo book run`, which takes milliseconds.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests take no other commands"))]
    Runs,
    /// All commands that contain the text.
    Commands(String),
}

impl Extent {
    fn contains(&self, command: &str) -> bool {
        match self {
            Self::Runs => command.starts_with(RUN),
            Self::Commands(words) => command.contains(words.as_str()),
        }
    }
}

const RUN: &str = "cargo book run ";

/// The output of a command that begins with this text is shortened: see [`shortened`].
const GRADE: &str = "cargo lab grade ";

/// Writes the outputs of the commands in `extent` into `chapters`. If `check` is set, only prints the outputs that
/// differ, and returns whether there are none. Otherwise returns true.
pub(crate) fn refresh(root: &Path, chapters: &Chapters, extent: &Extent, check: bool) -> Result<bool> {
    let mut is_right = true;
    for path in chapters.paths() {
        let text = read(root, path)?;
        let new = replace(&text, |command| extent.contains(command).then(|| output(root, command)).transpose())
            .map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
        if new == text {
            continue;
        }
        is_right = false;
        if check {
            println!("{}: an output is not that of its command. `cargo book outputs` writes:", path.display());
            let old: Vec<&str> = text.lines().collect();
            new.lines().filter(|line| !old.contains(line)).for_each(|line| println!("  {line}"));
        } else {
            fs::write(root.join(path), new).map_err(|error| Error::file("write", path, &error))?;
            println!("{} is new", path.display());
        }
    }
    Ok(is_right || !check)
}

/// Returns `text` with other outputs: `output` returns the new output of a command, or `None` if the old one stays.
fn replace(text: &str, mut output: impl FnMut(&str) -> Result<Option<String>>) -> Result<String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (command, block) = after.split_once(END).ok_or_else(|| Error::new("a marker has no end"))?;
        let wrong = || Error::new(format!("no block of text below `{command}`"));
        let (old, behind) = block.strip_prefix(OPEN).and_then(|block| block.split_once(CLOSE)).ok_or_else(wrong)?;
        let new = output(command)?;
        result.extend([before, BEGIN, command, END, OPEN, new.as_deref().unwrap_or(old), CLOSE]);
        rest = behind;
    }
    result.push_str(rest);
    Ok(result)
}

/// Returns what `command` prints to its standard output.
fn output(root: &Path, command: &str) -> Result<String> {
    if let Some(name) = command.strip_prefix(RUN) {
        return Ok(Experiment::find(name)?.perform().0);
    }
    eprintln!("book: {command}");
    let mut words = command.split_whitespace();
    let program = words.next().ok_or_else(|| Error::new("an empty command"))?;
    // The status of the command is ignored, because some chapters show checks that fail on purpose.
    let output = Command::new(program).args(words).current_dir(root).output();
    let output = output.map_err(|error| Error::new(format!("cannot run `{command}`: {error}")))?;
    if output.stdout.is_empty() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(format!("`{command}` printed nothing, but: {message}")));
    }
    let text = String::from_utf8(output.stdout);
    let text = text.map_err(|_| Error::new(format!("the output of `{command}` is not UTF-8")))?;
    Ok(if command.starts_with(GRADE) { shortened(&text) } else { text })
}

/// Returns the grade without the indented lines, which are messages, except for the first one.
fn shortened(grade: &str) -> String {
    let mut is_first = true;
    let is_shown = |line: &&str| !line.starts_with(' ') || std::mem::take(&mut is_first);
    grade.split_inclusive('\n').filter(is_shown).collect()
}

#[cfg(test)]
mod tests {
    use super::{Extent, refresh, replace, shortened};
    use crate::chapters::Chapters;
    use crate::root;

    const TEXT: &str = "a\n\n<!-- output: one -->\n```text\nold\n```\nb\n";

    #[test]
    fn outputs_are_replaced_and_nothing_else() {
        let new = replace(TEXT, |_| Ok(Some("new\n".to_string()))).unwrap();
        assert_eq!(new, TEXT.replace("old", "new"));
        assert_eq!(replace(TEXT, |_| Ok(None)).unwrap(), TEXT);
        assert!(replace("<!-- output: one -->\nno block\n", |_| Ok(None)).is_err());
    }

    #[test]
    fn one_message_of_a_grade_is_shown() {
        let grade = "Lab\n\nok      1\nFAILED  2\n    one\n    See: two\nFAILED  3\n    three\n";
        assert_eq!(shortened(grade), "Lab\n\nok      1\nFAILED  2\n    one\nFAILED  3\n");
    }

    #[test]
    fn chapters_show_what_the_runs_print() {
        let chapters = Chapters::read(root()).unwrap();
        let is_right = refresh(root(), &chapters, &Extent::Runs, true).unwrap();
        assert!(is_right, "`cargo book outputs` writes the outputs anew");
    }
}
