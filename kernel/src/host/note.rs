//! What the host cannot do is said once, where a program first relies on it.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, Write as _};

/// A message that is printed on standard error the first time.
#[derive(Debug)]
pub(super) struct Note {
    text: &'static str,
    is_said: AtomicBool,
}

impl Note {
    pub(super) const fn new(text: &'static str) -> Self {
        Self { text, is_said: AtomicBool::new(false) }
    }

    pub(super) fn say(&self) {
        if !self.is_said.swap(true, Ordering::Relaxed) {
            report(format_args!("note: {}", self.text));
        }
    }
}

/// Prints a line on standard error. If nobody reads that any more there is nobody to tell.
pub(super) fn report(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
