//! Shows a machine's console on standard output and standard error, and passes standard input to the machine.
//!
//! Standard output shows what the program prints. Standard error shows everything else: the kernel's log and reports,
//! and the program's own error messages. If both are the same terminal or file, all text is in the order in which the
//! machine has printed it.

use core::mem;
use core::time::Duration;
use std::io::{self, IsTerminal as _, Read as _, Write};
use std::thread;
use std::time::Instant;

use boot_protocol::console::Stream;
use boot_protocol::input::Kind;
use boot_protocol::status;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::Error;
use crate::session::{Ending, Event, Input, Session};

/// Runs `session` until the machine ends or the time limit is over. Returns the exit status.
///
/// # Errors
///
/// [`Error::Qemu`] if QEMU fails. [`Error::Output`] or [`Error::Closed`] if writing to standard output fails.
pub fn show(session: Session, limit: Option<Duration>) -> Result<u8, Error> {
    show_on(&mut Screen::standard(), session, limit)
}

/// Like [`show`], but on a console of the caller's choice.
///
/// # Errors
///
/// In the same cases as [`show`].
pub fn show_on(screen: &mut impl Console, mut session: Session, limit: Option<Duration>) -> Result<u8, Error> {
    let input = session.input();
    thread::spawn(move || forward_standard_input(&input));
    // A limit that is too long for the clock is never reached.
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let tick = screen.next_tick();
        if tick.is_some_and(|tick| tick <= Instant::now()) {
            screen.tick();
            continue;
        }
        match session.next([deadline, tick].into_iter().flatten().min()) {
            Event::Output(stream, bytes) => screen.show(stream, &bytes)?,
            Event::Ended(Ending::Failed(error)) => return Err(error),
            Event::Ended(ending) => {
                screen.end();
                if ending == Ending::Reset {
                    say("the machine reset itself, as it does on a triple fault");
                }
                if ending == Ending::Status(status::OUTPUT_LOST) {
                    say("the program's last output is lost: the console did not accept it in time");
                }
                return Ok(ending.status());
            }
            Event::TimedOut if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
            Event::TimedOut => {
                screen.end();
                let mut result = Ok(());
                let limit = limit.unwrap_or_default();
                match session.announced() {
                    Some(_) => say(&format!("time-out: the program had failed, and its report is cut after {limit:?}")),
                    None => say(&format!("time-out: the program still ran after {limit:?}")),
                }
                session.last_words(|stream, bytes| {
                    if result.is_ok() {
                        result = screen.show(stream, bytes);
                    }
                });
                if !session.has_begun() {
                    say("the kernel has printed nothing: it has not begun, or QEMU hangs");
                }
                return result.map(|()| session.announced().unwrap_or(status::TIMEOUT));
            }
        }
    }
}

/// Prints a message to the user, on standard error. An error is ignored, because there is no other way to report it.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "boot: {text}");
}

/// Where the output of the machine is shown.
pub trait Console {
    /// Shows text.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] or [`Error::Closed`] if writing to standard output fails, or to the file in which the text is
    /// kept.
    fn show(&mut self, stream: Stream, text: &[u8]) -> Result<(), Error>;

    /// Returns the time at which [`tick`](Self::tick) must be called next. `None` if no call is needed.
    fn next_tick(&self) -> Option<Instant> {
        None
    }

    /// Called at the time that [`next_tick`](Self::next_tick) has returned, or later.
    fn tick(&mut self) {}

    /// Called when the machine has ended, except if QEMU has failed. If the time limit of the machine is over, this is
    /// called before the machine is asked for a report. After this call, text is shown on standard output and standard
    /// error.
    fn end(&mut self) {}
}

/// Standard output and standard error.
#[derive(Debug)]
pub struct Screen<O, E> {
    output: O,
    errors: E,
    /// Whether `output` and `errors` are both terminals.
    is_terminal: bool,
    /// Whether the text that was shown last went to `output` and ended within a line.
    is_in_line: bool,
}

impl Screen<io::Stdout, io::Stderr> {
    /// Returns a screen that shows text on the standard output and the standard error of this process.
    pub(crate) fn standard() -> Self {
        let (output, errors) = (io::stdout(), io::stderr());
        let is_terminal = output.is_terminal() && errors.is_terminal();
        Self::new(output, errors, is_terminal)
    }
}

impl<O: Write, E: Write> Screen<O, E> {
    fn new(output: O, errors: E, is_terminal: bool) -> Self {
        Self { output, errors, is_terminal, is_in_line: false }
    }
}

impl<O: Write, E: Write> Console for Screen<O, E> {
    /// Shows text. On a terminal, a report that comes while a line of the program is incomplete begins on a new line.
    fn show(&mut self, stream: Stream, text: &[u8]) -> Result<(), Error> {
        let was_in_line = mem::take(&mut self.is_in_line);
        if stream == Stream::Output {
            self.is_in_line = text.last() != Some(&b'\n');
            return self.output.write_all(text).and_then(|()| self.output.flush()).map_err(Error::writing);
        }
        // Errors are ignored, because there is no other way to report them.
        if self.is_terminal && was_in_line && !text.starts_with(b"\n") {
            let _ = self.errors.write_all(b"\n");
        }
        let _ = self.errors.write_all(text);
        Ok(())
    }
}

/// Sends standard input to the machine: the bytes of a pipe or file, or the keys of a terminal. Sending fails if the
/// machine needs no more input, because it has ended or because its input is a script.
fn forward_standard_input(input: &Input) {
    let kind = if io::stdin().is_terminal() { Kind::Keys } else { Kind::Bytes };
    let mut buffer = [0; 4096];
    loop {
        wait_for_foreground();
        let read = io::stdin().lock().read(&mut buffer);
        let sent = match read {
            Ok(0) => input.send((Kind::End, Vec::new())),
            Ok(count) => input.send((kind, buffer[..count].to_vec())),
            Err(ref error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(ref error) => {
                let sent = input.send((Kind::Failed, Vec::new()));
                // If the machine needs no more input, the error does not matter.
                if sent.is_ok() {
                    say(&format!("cannot read standard input: {error}"));
                }
                sent
            }
        };
        if sent.is_err() || !read.is_ok_and(|count| count > 0) {
            return;
        }
    }
}

/// If standard input is a terminal, waits until this process is in the foreground and may read from the terminal.
///
/// Without this wait, the terminal would stop a `boot` that runs in the background as soon as that `boot` reads. But
/// most programs never ask for input, so `boot` should continue to run in the background.
fn wait_for_foreground() {
    while tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground != getpgrp()) {
        thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what standard output and standard error show after these texts. If `is_terminal` is false, both are
    /// files.
    fn shown(is_terminal: bool, texts: &[(Stream, &str)]) -> (String, String) {
        let mut screen = Screen::new(Vec::new(), Vec::new(), is_terminal);
        for (stream, text) in texts {
            screen.show(*stream, text.as_bytes()).expect("shown");
        }
        (String::from_utf8(screen.output).expect("text"), String::from_utf8(screen.errors).expect("text"))
    }

    #[test]
    fn report_begins_on_a_new_line_of_a_terminal() {
        use Stream::{Error, Output};
        for (texts, errors) in [
            (&[(Output, "in a "), (Output, "line"), (Error, "report\n"), (Error, "more\n")][..], "\nreport\nmore\n"),
            (&[(Output, "a line\n"), (Error, "report\n")], "report\n"),
            (&[(Output, "in a line"), (Error, "\nreport\n")], "\nreport\n"),
            (&[(Error, "report\n")], "report\n"),
        ] {
            assert_eq!(shown(true, texts).1, errors, "{texts:?}");
            let unchanged: String = texts.iter().filter(|text| text.0 == Error).map(|text| text.1).collect();
            assert_eq!(shown(false, texts).1, unchanged, "{texts:?}");
        }
    }
}
