//! Printing the state of a scheduler periodically, as the program or the environment variable `GMP_DEBUG` requests.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;
use std::env;
use std::io::{self, Write as _};
use std::sync::OnceLock;

use crate::report::schedtrace::Schedtrace;

/// The environment variable that requests that the state of schedulers is printed. It has the syntax of Go's `GODEBUG`.
/// Its settings may also be separated by blanks.
const VARIABLE: &str = "GMP_DEBUG";

/// Returns what the environment variable requests, or `None` if it requests nothing. If its value is invalid, prints a
/// message once, and returns `None`.
pub(super) fn of_environment() -> Option<Schedtrace> {
    static REQUESTED: OnceLock<Option<Schedtrace>> = OnceLock::new();
    *REQUESTED.get_or_init(|| {
        let value = env::var_os(VARIABLE)?;
        parse(&value.to_string_lossy()).unwrap_or_else(|mistake| {
            print(format_args!("{VARIABLE}: {mistake}; expected schedtrace=MILLISECONDS and perhaps scheddetail=1, with a comma or a blank between them"));
            None
        })
    })
}

/// Parses the value of the environment variable. As in Go, an interval of 0 means that nothing is printed, and so does
/// `scheddetail` without an interval.
fn parse(value: &str) -> Result<Option<Schedtrace>, String> {
    let (mut milliseconds, mut detailed) = (0, false);
    for setting in value.split([',', ' ']).filter(|setting| !setting.is_empty()) {
        let number = |value: &str| value.parse::<u32>().map_err(|_| format!("`{setting}` is not a number"));
        match setting.split_once('=') {
            Some(("schedtrace", value)) => milliseconds = number(value)?,
            Some(("scheddetail", value)) => detailed = number(value)? > 0,
            other => {
                let key = other.map_or(setting, |(key, _)| key);
                let meant = ["schedtrace", "scheddetail"].into_iter().find(|known| is_similar(key, known));
                let question = meant.map_or_else(String::new, |known| format!(" (did you mean `{known}=`?)"));
                return Err(format!("`{setting}` is unknown{question}"));
            }
        }
    }
    let interval = Duration::from_millis(milliseconds.into());
    Ok((milliseconds > 0).then_some(Schedtrace { interval, detailed }))
}

/// Whether a user who wrote `key` may have meant `known`: the words differ in at most two neighbouring characters.
fn is_similar(key: &str, known: &str) -> bool {
    let (key, known) = (key.as_bytes(), known.as_bytes());
    let same = |(a, b): &(&u8, &u8)| a.eq_ignore_ascii_case(b);
    let before = key.iter().zip(known).take_while(same).count();
    let rest = key.len().min(known.len()) - before;
    let after = key.iter().rev().zip(known.iter().rev()).take(rest).take_while(same).count();
    key.len().max(known.len()) - before - after <= 2
}

/// Prints a text and a line break to standard error, in one write. Errors are ignored, as by Go's `print`.
pub(super) fn print(text: impl fmt::Display) {
    let text = format!("{text}\n");
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_has_the_syntax_of_godebug() {
        let every =
            |milliseconds, detailed| Ok(Some(Schedtrace { interval: Duration::from_millis(milliseconds), detailed }));
        for (value, requested) in [
            ("schedtrace=1000", every(1000, false)),
            ("schedtrace=20,scheddetail=1", every(20, true)),
            ("scheddetail=1,schedtrace=20", every(20, true)),
            ("schedtrace=20,scheddetail=0", every(20, false)),
            ("schedtrace=1000,schedtrace=5,", every(5, false)),
            ("schedtrace=20 scheddetail=1", every(20, true)),
            (" scheddetail=1, schedtrace=20 ", every(20, true)),
            ("schedtrace=0", Ok(None)),
            ("scheddetail=1", Ok(None)),
            ("", Ok(None)),
            ("schedtrace=soon", Err("`schedtrace=soon` is not a number".into())),
            ("schedtrace", Err("`schedtrace` is unknown (did you mean `schedtrace=`?)".into())),
            ("schedtrce=5", Err("`schedtrce=5` is unknown (did you mean `schedtrace=`?)".into())),
            ("SchedDetial=1", Err("`SchedDetial=1` is unknown (did you mean `scheddetail=`?)".into())),
            ("gctrace=1", Err("`gctrace=1` is unknown".into())),
        ] {
            assert_eq!(parse(value), requested, "{value}");
        }
    }
}
