//! The terminal of the view, which is standard error, and the output that is kept until the view ends.
//!
//! [`leave`] restores the terminal and prints what was kept. It is called when the machine ends or its time limit is
//! over, when the view is dropped, in a panic, and before a signal ends this process. After the first call, nothing is
//! drawn, and further calls have no effect.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::{mem, panic};

use boot_protocol::console::Stream;
use rustix::termios::{LocalModes, OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr};

use super::draw::{Line, Style, picture};
use super::model::Model;
use crate::Error;
use crate::console::{Console as _, Screen};

/// Switches to the alternate screen, hides the cursor, and makes the terminal cut lines that are too long.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l";
/// Resets colours, undoes what [`ENTER`] does, and switches back to the ordinary screen.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Clears the terminal.
const CLEAR: &str = "\x1b[2J";
/// The maximum number of lines of output that are kept for the view.
const LINES: usize = 200;

/// The settings of the terminal before the view. `None` while no view is shown.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);
/// Locked while the kept output is printed. Later output of the machine waits for this lock, so that it is printed
/// after the kept output.
static PRINTING: Mutex<()> = Mutex::new(());
/// Whether the view was left because the process was stopped (Ctrl-Z). The view is shown again when the process
/// continues.
static IS_SUSPENDED: AtomicBool = AtomicBool::new(false);
/// Whether the next picture must be drawn as a whole.
static NEEDS_REPAINT: AtomicBool = AtomicBool::new(false);

/// Locks a mutex. Ignores poisoning, because its holders do not panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the machine has printed, in order. The text is in a file without a name.
#[derive(Debug)]
struct Kept {
    text: File,
    /// The stream and the length of each part of the text.
    parts: Vec<(Stream, u64)>,
}

/// Switches to the view. Returns an error if standard error is no terminal.
fn enter() -> io::Result<()> {
    let terminal = io::stderr();
    let mut before = lock(&BEFORE);
    let settings = tcgetattr(&terminal)?;
    let mut silent = settings.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Now, &silent)?;
    *before = Some(settings);
    terminal.lock().write_all(ENTER)
}

/// Restores the terminal; returns whether the view was shown. Errors are ignored, because the terminal may be gone.
fn restore() -> bool {
    let Some(settings) = lock(&BEFORE).take() else { return false };
    let mut terminal = io::stderr();
    let _ = terminal.write_all(LEAVE);
    let _ = tcsetattr(&terminal, OptionalActions::Now, &settings);
    true
}

/// Ends the view: restores the terminal, and prints what was kept. Has no effect if there is no view.
pub(crate) fn leave() {
    restore();
    let mut guard = lock(&KEPT);
    let Some(mut kept) = guard.take() else { return };
    let _printing = lock(&PRINTING);
    // A signal that ends this process calls this function, too. If the lock were held during the printing, that call
    // would wait, and the process would end only after all is printed.
    drop(guard);
    let mut screen = Screen::standard();
    let mut print = || -> io::Result<()> {
        kept.text.rewind()?;
        for (stream, length) in mem::take(&mut kept.parts) {
            let mut left = (&kept.text).take(length);
            let mut part = Vec::new();
            left.read_to_end(&mut part)?;
            screen.show(stream, &part).map_err(io::Error::other)?;
        }
        Ok(())
    };
    // An error is ignored, because it cannot be handled here. It means that standard output cannot be written, or that
    // the file with the kept output cannot be read.
    let _ = print();
}

/// Restores the terminal before this process is stopped.
pub(crate) fn suspend() {
    IS_SUSPENDED.store(restore(), Ordering::Relaxed);
}

/// Shows the view again, if it was shown when this process was stopped.
pub(crate) fn resume() {
    if IS_SUSPENDED.swap(false, Ordering::Relaxed) {
        NEEDS_REPAINT.store(true, Ordering::Relaxed);
        // If the terminal is gone, nothing is drawn.
        let _ = enter();
    }
}

/// Returns the bytes that replace the lines `before` on the terminal by `lines`.
fn replace(before: &[Line], lines: &[Line]) -> String {
    let mut text = String::new();
    for row in 0..before.len().max(lines.len()) {
        if before.get(row) == lines.get(row) {
            continue;
        }
        // Move the cursor to the beginning of the row, and clear the row. If the row were cleared after the line
        // instead, the last character of a line that fills the row would be lost.
        let (style, line) = lines.get(row).map_or((Style::Plain, ""), |(style, line)| (*style, line.as_str()));
        let attribute = match style {
            Style::Plain => 0,
            Style::Bold => 1,
            Style::Dim => 2,
        };
        text += &format!("\x1b[{};1H\x1b[K\x1b[{attribute}m{line}\x1b[0m", row + 1);
    }
    text
}

/// The terminal of the view. Dropping it ends the view.
pub(super) struct Terminal {
    title: String,
    size: Winsize,
    /// The lines of the last picture.
    shown: Vec<Line>,
    /// The last lines of the output. The last of these lines may be incomplete.
    lines: VecDeque<String>,
}

impl core::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Terminal").field("title", &self.title).finish_non_exhaustive()
    }
}

impl Terminal {
    /// Begins the view.
    pub(super) fn enter(title: String) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        let size = tcgetwinsize(io::stderr())?;
        *lock(&KEPT) = Some(Kept { text: tempfile::tempfile()?, parts: Vec::new() });
        enter()?;
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |information| {
                leave();
                before(information);
            }));
        });
        Ok(Self { title, size, shown: Vec::new(), lines: VecDeque::from([String::new()]) })
    }

    /// Keeps text of the machine until the view ends. If the view has ended, prints the text at once.
    pub(super) fn keep(&mut self, stream: Stream, text: &[u8]) -> Result<(), Error> {
        let cannot = |error| Error::Output(format!("cannot keep the output in a temporary file: {error}"));
        {
            let mut kept = lock(&KEPT);
            if let Some(kept) = &mut *kept {
                kept.text.write_all(text).map_err(cannot)?;
                match kept.parts.last_mut() {
                    Some((last, length)) if *last == stream => *length += text.len() as u64,
                    _ => kept.parts.push((stream, text.len() as u64)),
                }
                add_lines(&mut self.lines, text);
                return Ok(());
            }
        }
        let _printed = lock(&PRINTING);
        Screen::standard().show(stream, text)
    }

    /// Draws a picture, if the view is shown. Errors are ignored, because the terminal may be gone.
    pub(super) fn draw(&mut self, model: &Model) {
        let size = tcgetwinsize(io::stderr()).unwrap_or(self.size);
        let mut text = String::new();
        if NEEDS_REPAINT.swap(false, Ordering::Relaxed) || self.shown.is_empty() || size != self.size {
            text += CLEAR;
            self.shown.clear();
            self.size = size;
        }
        let values = model.values();
        let (columns, rows) = (size.ws_col.into(), size.ws_row.into());
        let lines = picture(columns, rows, &self.title, values.as_ref(), self.lines.make_contiguous());
        text += &replace(&self.shown, &lines);
        self.shown = lines;
        // The lock is held while the picture is written, so that nothing is drawn after the view has been left.
        let is_shown = lock(&BEFORE);
        if is_shown.is_some() {
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
    }
}

/// Appends text to the last lines. Control characters, which could change the terminal, become spaces.
fn add_lines(lines: &mut VecDeque<String>, text: &[u8]) {
    for character in String::from_utf8_lossy(text).chars() {
        match (character, lines.back_mut()) {
            ('\n', _) | (_, None) => lines.push_back(String::new()),
            (control, Some(last)) if control.is_control() => last.push(' '),
            (other, Some(last)) => last.push(other),
        }
        if lines.len() > LINES {
            lines.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_lines_are_drawn_again() {
        let lines =
            |texts: &[&str]| -> Vec<Line> { texts.iter().map(|&text| (Style::Plain, text.to_owned())).collect() };
        let (one, two) = (lines(&["head", "old", "last"]), lines(&["head", "new"]));
        assert_eq!(replace(&one, &one), "");
        assert_eq!(replace(&one, &two), "\x1b[2;1H\x1b[K\x1b[0mnew\x1b[0m\x1b[3;1H\x1b[K\x1b[0m\x1b[0m");
        assert_eq!(replace(&[], &[(Style::Bold, "head".into())]), "\x1b[1;1H\x1b[K\x1b[1mhead\x1b[0m");
    }

    #[test]
    fn only_the_last_lines_are_shown_and_no_control_characters() {
        let mut lines = VecDeque::from([String::new()]);
        add_lines(&mut lines, b"one\ntw");
        add_lines(&mut lines, b"o\x1b[31m\tred\r\n");
        assert_eq!(lines, ["one", "two [31m red ", ""]);
        (0..LINES).for_each(|_| add_lines(&mut lines, b"more\n"));
        assert_eq!((lines.len(), lines[0].as_str(), lines[LINES - 1].as_str()), (LINES, "more", ""));
    }
}
