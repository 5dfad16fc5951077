//! A line on the terminal that says what is being done. If the output does not go to a terminal, the line is not shown.

use std::io::{self, IsTerminal as _};

/// How many characters of the line are shown, so that it is a single line.
const WIDTH: usize = 70;

/// The line. It is cleared when this value is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    /// A line that is shown if it `is_wanted` and there is a terminal.
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self { is_shown: is_wanted && io::stderr().is_terminal() }
    }

    /// Shows `text` in the place of what the line said before.
    pub(crate) fn show(&self, text: &str) {
        if self.is_shown {
            eprint!("\r\x1b[K{}", text.chars().take(WIDTH).collect::<String>());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
