//! Describes an address by its function and line.

use core::fmt::Write as _;
use std::env;
use std::path::{Path, PathBuf};

use symbols::Frame;

use crate::checkout;

/// The functions and lines of an ELF file.
pub(crate) struct Symbols {
    pub(crate) program: PathBuf,
    /// `None` until the symbols are first used.
    symbols: Option<symbols::Symbols>,
    /// Folders that are removed from the beginning of paths of source files. The first is the workspace of the kernel,
    /// and the second is the current directory.
    directories: [PathBuf; 2],
}

impl Symbols {
    pub(crate) fn new(program: &Path) -> Self {
        let directories = [checkout::root().to_owned(), env::current_dir().unwrap_or_default()];
        Self { program: program.to_owned(), symbols: None, directories }
    }

    /// Returns ` function (file:line)` for an address. If the function was inlined into other functions, one more line
    /// follows for each of these. Returns an empty text if the address is unknown.
    pub(crate) fn describe(&mut self, address: u64) -> String {
        self.describe_if(address, |_, _| true).unwrap_or_default()
    }

    /// Returns the same text as [`describe`](Self::describe), but without functions of the kernel or a library. Returns
    /// an empty text if the address is only in such functions, and `None` if the address is unknown.
    pub(crate) fn describe_own(&mut self, address: u64) -> Option<String> {
        self.describe_if(address, |symbols, file| !file.is_empty() && symbols.is_own(file))
    }

    /// Describes an address. Omits the functions for whose source file `is_wanted` returns false. Returns `None` if the
    /// address is unknown.
    fn describe_if(&mut self, address: u64, is_wanted: impl Fn(&symbols::Symbols, &str) -> bool) -> Option<String> {
        let symbols = self.symbols.get_or_insert_with(|| symbols::Symbols::new(&self.program));
        let frames = symbols.frames(address)?;
        let mut text = String::new();
        for frame in frames.iter().filter(|frame| is_wanted(symbols, &frame.file)) {
            text.push_str(if text.is_empty() { " " } else { "\n     inlined into " });
            write_frame(&mut text, frame, &self.directories);
        }
        Some(text)
    }
}

fn write_frame(text: &mut String, frame: &Frame, directories: &[PathBuf]) {
    text.push_str(&frame.function);
    if !frame.file.is_empty() && frame.line != 0 {
        // Writing to a `String` cannot fail.
        let _ = write!(text, " ({}:{})", symbols::short(&frame.file, directories), frame.line);
    }
}
