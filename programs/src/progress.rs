//! A progress bar for programs that take long: one line of standard error, which is drawn again a few times a second.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt;
use core::time::Duration;

use kernel::console::stderr_is_terminal;
use kernel::eprint;
use kernel::platform::{Limit, now};
use kernel::time::Instant;

/// The time between two drawings.
const INTERVAL: Duration = Duration::from_millis(200);
/// The number of columns that the bar uses, so that it fits on a terminal with 80 columns.
const COLUMNS: usize = 78;
/// The number of columns between the brackets.
const BAR: usize = 30;

/// A progress bar. The bar is drawn only if standard error is a terminal. Dropping this value removes the bar from the
/// terminal.
///
/// The bar uses no control sequences except the carriage return. After it is drawn, the cursor is at the beginning of
/// its line, so a message that other code prints overwrites the bar.
#[derive(Debug)]
pub struct Progress {
    start: Instant,
    /// When the bar is drawn next. `None` if it is never drawn.
    next: Option<Instant>,
    is_visible: bool,
}

impl Progress {
    /// Makes a progress bar, which is not visible before the first call of [`draw`](Self::draw). If `is_quiet` is set,
    /// the bar never appears.
    #[must_use]
    pub fn new(is_quiet: bool) -> Self {
        let start = now();
        let is_drawn = !is_quiet && stderr_is_terminal();
        Self { start, next: is_drawn.then(|| start + INTERVAL), is_visible: false }
    }

    /// Returns the limit that the caller should use for its next wait. When this limit ends the wait, the caller should
    /// call [`draw`](Self::draw).
    #[must_use]
    pub fn limit(&self) -> Limit<'static> {
        self.next.map_or(Limit::NONE, Limit::from)
    }

    /// Draws the bar, which shows that `done` of `total` bytes have been processed. Does nothing if the bar must never
    /// appear. Blocks the calling G while the console accepts no output.
    pub fn draw(&mut self, done: u64, total: u64) {
        if self.next.is_some() {
            let now = now();
            let bar = Bar { done, total, elapsed: now - self.start };
            eprint!("{}\r", bar.line());
            self.is_visible = true;
            self.next = Some(now + INTERVAL);
        }
    }

    /// Removes the bar from the terminal until it is drawn again. Must be called before the program prints anything
    /// else. Blocks the calling G while the console accepts no output.
    pub fn hide(&mut self) {
        if self.is_visible {
            eprint!("{:COLUMNS$}\r", "");
            self.is_visible = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}

/// The text of the bar.
struct Bar {
    done: u64,
    total: u64,
    elapsed: Duration,
}

impl Bar {
    /// Returns the text with exactly [`COLUMNS`] characters.
    fn line(&self) -> String {
        format!("{:<COLUMNS$.COLUMNS$}", self.to_string())
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: f64 = (1 << 20) as f64;
        let (done, total) = (self.done as f64 / MIB, self.total as f64 / MIB);
        // A file without any bytes is shown as done.
        let share = if self.done < self.total { done / total } else { 1.0 };
        let (percent, filled) = ((share * 100.0) as usize, (share * BAR as f64) as usize);
        write!(f, "{percent:>3} % [{:=<filled$}{:BAR_REST$}] ", "", "", BAR_REST = BAR - filled)?;
        write!(f, "{done:.0} of {total:.0} MiB, {:.1} MiB/s", done / self.elapsed.as_secs_f64().max(1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(done: u64, total: u64) -> String {
        Bar { done, total, elapsed: Duration::from_secs(2) }.to_string()
    }

    #[test]
    fn bar_grows_from_nothing_to_everything() {
        let spaces = |count| " ".repeat(count);
        let signs = |count| "=".repeat(count);
        assert_eq!(bar(0, 10 << 20), format!("  0 % [{}] 0 of 10 MiB, 0.0 MiB/s", spaces(30)));
        assert_eq!(bar(5 << 20, 10 << 20), format!(" 50 % [{}{}] 5 of 10 MiB, 2.5 MiB/s", signs(15), spaces(15)));
        assert_eq!(bar((10 << 20) - 1, 10 << 20), format!(" 99 % [{} ] 10 of 10 MiB, 5.0 MiB/s", signs(29)));
        assert_eq!(bar(10 << 20, 10 << 20), format!("100 % [{}] 10 of 10 MiB, 5.0 MiB/s", signs(30)));
    }

    #[test]
    fn empty_work_is_complete() {
        assert_eq!(bar(0, 0), format!("100 % [{}] 0 of 0 MiB, 0.0 MiB/s", "=".repeat(30)));
    }

    #[test]
    fn text_has_the_length_of_the_line() {
        for (done, total) in [(0, 0), (1 << 20, 10 << 20), (1 << 62, 1 << 63)] {
            let line = Bar { done, total, elapsed: Duration::from_millis(1) }.line();
            assert_eq!((line.len(), line.get(..5)), (COLUMNS, bar(done, total).get(..5)));
        }
    }
}
