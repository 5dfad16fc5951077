//! The command that repeats a run with counted instructions.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::qemu::shell_quoted;

/// The option that records the input, and the option that takes the input from the recorded file.
const RECORD: &str = "--record-input";
const SCRIPT: &str = "--input-script";

/// Returns what `boot` prints after a failed run with counted instructions: the command that repeats the run. `words`
/// are the arguments of `boot`. `recorded` is the file to which the input was recorded, or `None` if it was not
/// recorded. `took_input` says whether the program has asked for input that was not recorded.
#[must_use]
pub fn advice(words: &[OsString], recorded: Option<&Path>, took_input: bool) -> String {
    let words = if recorded.is_some() { from_record(words) } else { words.to_vec() };
    let command = ["cargo", "run", "--"].map(OsStr::new).into_iter().chain(words.iter().map(OsString::as_os_str));
    let command = shell_quoted(command);
    if took_input {
        return format!(
            "the program has asked for input, which was not recorded. With {RECORD} FILE, the run could be repeated: \
             {command}"
        );
    }
    format!("to repeat this run, also with --gdb: {command}")
}

/// Replaces the first option that records the input by the option that takes it from the same file.
fn from_record(words: &[OsString]) -> Vec<OsString> {
    let mut is_replaced = false;
    let mut replace = |word: &OsString| {
        let rest = word.to_str().filter(|_| !is_replaced).and_then(|word| word.strip_prefix(RECORD));
        // A word that is not Unicode stays as it is. So if the name of the file is not Unicode, only the form with two
        // words, `--record-input NAME`, is replaced, and `--record-input=NAME` is not.
        match rest.filter(|rest| rest.is_empty() || rest.starts_with('=')) {
            Some(rest) => {
                is_replaced = true;
                format!("{SCRIPT}{rest}").into()
            }
            None => word.clone(),
        }
    };
    words.iter().map(&mut replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice_for(words: &[&str], recorded: Option<&str>, took_input: bool) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        advice(&words, recorded.map(Path::new), took_input)
    }

    #[test]
    fn the_command_is_the_same_except_for_the_input() {
        let same = "to repeat this run, also with --gdb: cargo run -- --icount --disk 'a b' tour --record-input x";
        assert_eq!(advice_for(&["--icount", "--disk", "a b", "tour", "--record-input", "x"], None, false), same);
        for (words, command) in [
            (&["--icount", "--record-input", "f", "p"][..], "cargo run -- --icount --input-script f p"),
            (
                &["--record-input=f", "--icount", "p", "--record-input=g"],
                "--input-script=f' --icount p '--record-input=g'",
            ),
        ] {
            let advice = advice_for(words, Some("f"), false);
            assert!(advice.ends_with(command), "{advice}");
        }
    }

    #[test]
    fn input_that_was_not_recorded_is_mentioned() {
        let advice = advice_for(&["--icount", "p"], None, true);
        assert!(advice.contains("With --record-input FILE"), "{advice}");
    }
}
