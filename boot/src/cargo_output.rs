//! Standard error, shared by cargo and `boot`.
//!
//! Cargo writes a line in several parts, and shows its progress in a line that it overwrites later. If the messages of
//! `boot` were written meanwhile, they would run into these lines. So cargo writes to a pipe. `boot` copies whole lines
//! from it to standard error, and removes the line with the progress before each message of its own.

use std::env;
use std::io::{self, IsTerminal as _, Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::termios::tcgetwinsize;

/// Removes the text from the cursor to the end of the line.
const ERASE: &[u8] = b"\x1b[K";

/// Writes the lines of cargo and the messages of `boot` to `O`.
#[derive(Debug)]
pub(crate) struct Shared<O>(Mutex<State<O>>);

#[derive(Debug)]
struct State<O> {
    output: O,
    /// What cargo has written of a line that is not complete.
    rest: Vec<u8>,
    /// Whether the last line is cargo's progress. The cursor is at the beginning of this line.
    shows_progress: bool,
}

impl<O: Write> Shared<O> {
    pub(crate) fn new(output: O) -> Self {
        Self(Mutex::new(State { output, rest: Vec::new(), shows_progress: false }))
    }

    /// Copies what cargo writes, until cargo closes the pipe.
    pub(crate) fn copy(&self, mut from: impl Read) {
        let mut bytes = [0; 4096];
        loop {
            match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => self.add(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.with(|state| {
            let rest = std::mem::take(&mut state.rest);
            state.write(&rest);
        });
    }

    /// Adds what cargo has written. Writes it up to the last end of a line, which is a newline, or a carriage return if
    /// the line is to be overwritten.
    fn add(&self, bytes: &[u8]) {
        self.with(|state| {
            state.rest.extend_from_slice(bytes);
            if let Some(last) = state.rest.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) {
                let rest = state.rest.split_off(last + 1);
                let lines = std::mem::replace(&mut state.rest, rest);
                state.write(&lines);
                state.shows_progress = lines.ends_with(b"\r");
            }
        });
    }

    /// Writes a message, which consists of whole lines.
    pub(crate) fn message(&self, text: &str) {
        self.with(|state| {
            if std::mem::take(&mut state.shows_progress) {
                state.write(ERASE);
            }
            state.write(text.as_bytes());
        });
    }

    fn with(&self, body: impl FnOnce(&mut State<O>)) {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<O: Write> State<O> {
    /// Writes bytes. An error is ignored, because there is no other way to report it.
    fn write(&mut self, bytes: &[u8]) {
        let _ = self.output.write_all(bytes);
    }
}

/// Whether cargo's text is coloured.
pub(crate) fn has_colors() -> bool {
    match env::var("CARGO_TERM_COLOR").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none(),
    }
}

/// Makes standard error of cargo a pipe. Cargo still writes as on the standard error of this process: with colours, and
/// with a line that shows the progress, if that is a terminal.
pub(crate) fn pipe(cargo: &mut Command) {
    cargo.stderr(Stdio::piped());
    if has_colors() {
        cargo.env("CARGO_TERM_COLOR", "always");
    }
    let is_plain = ["CI", "CARGO_TERM_PROGRESS_WHEN"].iter().any(|name| env::var_os(name).is_some())
        || env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
    if !is_plain && let Ok(size) = tcgetwinsize(io::stderr()) {
        cargo.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", size.ws_col.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part is either written by cargo, or a message.
    fn written(parts: &[Result<&str, &str>]) -> String {
        let shared = Shared::new(Vec::new());
        for part in parts {
            match part {
                Ok(cargo) => shared.add(cargo.as_bytes()),
                Err(message) => shared.message(message),
            }
        }
        shared.copy(io::empty());
        String::from_utf8(shared.0.into_inner().expect("not poisoned").output).expect("text")
    }

    #[test]
    fn message_does_not_run_into_a_line_of_cargo() {
        assert_eq!(
            written(&[Ok("   Compiling"), Err("warning: w\n"), Ok(" x v1\n")]),
            "warning: w\n   Compiling x v1\n"
        );
        assert_eq!(written(&[Ok("a\nb"), Err("w\n"), Ok("c\n"), Ok("without an end")]), "a\nw\nbc\nwithout an end");
    }

    #[test]
    fn message_replaces_the_progress() {
        let bar = "    Building [=> ] 1/2: x\r";
        for split in 0..bar.len() {
            let (begin, end) = bar.split_at(split);
            let parts = [Ok(begin), Ok(end), Err("warning: w\n"), Err("more\n"), Ok(bar), Ok("\x1b[K    Finished\n")];
            let expected = format!("{bar}\x1b[Kwarning: w\nmore\n{bar}\x1b[K    Finished\n");
            assert_eq!(written(&parts), expected);
        }
    }
}
