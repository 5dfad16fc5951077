//! Notes about features that the host lacks. Each note is printed once, when a program first relies on the feature.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, Write as _};

use super::console;

/// A message that is printed on standard error once, even if the program causes it several times.
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

/// Prints a line on standard error. An error is ignored, because there is no other way to report it.
pub(super) fn report(line: fmt::Arguments<'_>) {
    console::block(|| _ = writeln!(io::stderr(), "{line}"));
}
