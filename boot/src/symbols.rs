//! Says which function and line an address in the machine's output belongs to, while that output passes through.

use core::fmt::Write as _;
use core::mem;
use std::env;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use boot_protocol::console::{FRAME_DIGITS, FRAME_PREFIX};

/// Adds the function and line to each address of a backtrace that passes through it.
///
/// Bytes come out as soon as they went in, so that a prompt or half a line shows at once.
pub struct Annotator {
    symbols: Symbols,
    /// How many bytes of [`FRAME_PREFIX`] and its digits the output ends with.
    matched: usize,
    /// The digits of those.
    address: u64,
    /// Whether the output ends with a space or a line, so that what comes is the beginning of a word.
    at_word: bool,
}

impl core::fmt::Debug for Annotator {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Annotator").field("program", &self.symbols.program).finish_non_exhaustive()
    }
}

impl Annotator {
    /// For the output of a machine that runs the ELF file `program`, which is read when the first address comes.
    pub fn new(program: &Path) -> Self {
        Self { symbols: Symbols::new(program), matched: 0, address: 0, at_word: true }
    }

    /// Passes `bytes` through: appends them to `output` with what the addresses in them are.
    pub fn annotate(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        for &byte in bytes {
            output.push(byte);
            if self.completes_an_address(byte) {
                output.extend(self.symbols.describe(self.address).into_bytes());
            }
        }
    }

    fn completes_an_address(&mut self, byte: u8) -> bool {
        let prefix = FRAME_PREFIX.as_bytes();
        let starts_word = mem::replace(&mut self.at_word, byte.is_ascii_whitespace());
        let digit = char::from(byte).to_digit(16).filter(|_| self.matched >= prefix.len());
        if let Some(digit) = digit {
            self.address = self.address << 4 | u64::from(digit);
            self.matched += 1;
        } else if prefix.get(self.matched) == Some(&byte) && (self.matched > 0 || starts_word) {
            self.matched += 1;
        } else {
            self.matched = usize::from(starts_word && byte == prefix[0]);
        }
        let complete = self.matched == prefix.len() + FRAME_DIGITS;
        if complete {
            self.matched = 0;
        }
        complete
    }
}

/// The functions and lines of an ELF file.
struct Symbols {
    program: PathBuf,
    /// Loaded when first needed; the inner `None` if that failed.
    loader: Option<Option<Loader>>,
    /// Left out of the paths of source files: the workspace of the kernel, and where the user is.
    directories: [PathBuf; 2],
}

impl Symbols {
    fn new(program: &Path) -> Self {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("")).to_owned();
        let directories = [workspace, env::current_dir().unwrap_or_default()];
        Self { program: program.to_owned(), loader: None, directories }
    }

    /// ` function (file:line)`, with one more line for each function that this one was inlined into; empty if unknown.
    fn describe(&mut self, address: u64) -> String {
        let loader = self.loader.get_or_insert_with(|| Loader::new(&self.program).ok());
        let Some(loader) = loader else { return String::new() };
        // The line tables also describe functions that the linker left out, at addresses near zero.
        let code = loader.get_section_range(b".text");
        if !code.is_some_and(|code| (code.begin..code.end).contains(&address)) {
            return String::new();
        }
        let mut frames = Vec::new();
        if let Ok(mut found) = loader.find_frames(address) {
            while let Ok(Some(frame)) = found.next() {
                frames.push(frame);
            }
        }
        let mut text = String::new();
        for (index, frame) in frames.iter().enumerate() {
            // The symbol is of the function that is really there, and says more than the name in the line tables does:
            // what module it is in. Functions that were inlined have none.
            let is_real = index + 1 == frames.len();
            let symbol = loader.find_symbol(address).filter(|_| is_real);
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let Some(name) = symbol.or(name.as_deref()) else { continue };
            text.push_str(if text.is_empty() { " " } else { "\n     inlined into " });
            write_frame(&mut text, name, frame.location.as_ref(), &self.directories);
        }
        if frames.is_empty()
            && let Some(name) = loader.find_symbol(address)
        {
            text.push(' ');
            write_frame(&mut text, name, None, &self.directories);
        }
        text
    }
}

fn write_frame(text: &mut String, name: &str, location: Option<&addr2line::Location<'_>>, directories: &[PathBuf]) {
    match rustc_demangle::try_demangle(name) {
        // The alternate form leaves out the hash. Writing to a String cannot fail.
        Ok(path) => write!(text, "{path:#}").unwrap_or_default(),
        // The name in the line tables: that of the function alone, with its type arguments in full length.
        Err(_) => text.push_str(name.split_once('<').map_or(name, |(function, _)| function)),
    }
    let file = location.and_then(|location| location.file);
    let line = location.and_then(|location| location.line);
    if let (Some(file), Some(line)) = (file, line) {
        let _ = write!(text, " ({}:{line})", short(file, directories));
    }
}

/// The path of a source file without what says nothing: where Rust, a registry or one of `directories` is.
fn short<'a>(file: &'a str, directories: &[PathBuf]) -> &'a str {
    let inside = |directory: &PathBuf| Path::new(file).strip_prefix(directory).ok()?.to_str();
    if let Some(own) = directories.iter().find_map(inside) {
        return own;
    }
    if let Some((_, in_library)) = file.split_once("/library/")
        && (file.starts_with("/rustc/") || file.contains("/rustlib/src/"))
    {
        return in_library;
    }
    let in_registry = file.split_once("/registry/src/").and_then(|(_, path)| path.split_once('/'));
    in_registry.map_or(file, |(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address in this test program's own file, which has line tables as well, of a function that is not inlined.
    #[inline(never)]
    fn landmark() -> u64 {
        let here = landmark as fn() -> u64 as usize as u64;
        let map = std::fs::read_to_string("/proc/self/maps").expect("the memory map");
        let base = map.split('-').next().expect("an address");
        here - u64::from_str_radix(base, 16).expect("a number")
    }

    fn annotated(text: &str, chunk: usize) -> String {
        let mut annotator = Annotator::new(&env::current_exe().expect("this program"));
        let mut output = Vec::new();
        for part in text.as_bytes().chunks(chunk) {
            let before = output.len();
            annotator.annotate(part, &mut output);
            assert!(output[before..].starts_with(&part[..1]), "every byte comes out at once");
        }
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn an_address_gets_its_function_and_line_however_the_bytes_arrive() {
        let text = format!("panic\n  at 0x{:016x}\nnext", landmark());
        for chunk in [1, 2, 3, 5, 19, text.len()] {
            let shown = annotated(&text, chunk);
            let line = shown.lines().nth(1).expect("two lines");
            assert!(line.contains("boot::symbols::tests::landmark ("), "{line}");
            assert!(line.contains("src/symbols.rs:"), "{line}");
            assert!(shown.ends_with("\nnext"), "{shown}");
        }
    }

    #[test]
    fn what_is_no_frame_passes_as_it_is() {
        let digits = format!("{:016x}", landmark());
        for text in [
            "  at 0x0000000000000001\n".to_owned(),
            format!("  at 0x{}\n", &digits[1..]),
            format!("flat 0x{digits}\n"),
            format!("at {digits}\n"),
            format!("at 0{digits}\n"),
            "\u{fffd} at at at 0x".to_owned(),
        ] {
            assert_eq!(annotated(&text, 1), text);
        }
    }

    #[test]
    fn a_frame_may_follow_what_looks_like_one() {
        let shown = annotated(&format!("at at 0x{:016x}", landmark()), 1);
        assert!(shown.contains("landmark"), "{shown}");
    }

    #[test]
    fn without_the_program_the_output_passes_as_it_is() {
        let mut output = Vec::new();
        Annotator::new(Path::new("/no/such/file")).annotate(b"at 0x0123456789abcdef\n", &mut output);
        assert_eq!(output, b"at 0x0123456789abcdef\n");
    }

    #[test]
    fn paths_are_shortened_to_what_says_something() {
        let directories = ["/home/me/project".into(), "/home/me/mine".into()];
        for (path, short) in [
            ("/home/me/project/kernel/src/exit.rs", "kernel/src/exit.rs"),
            ("/home/me/mine/src/main.rs", "src/main.rs"),
            ("/rustc/0123abcd/library/core/src/panicking.rs", "core/src/panicking.rs"),
            ("/r/lib/rustlib/src/rust/library/alloc/src/vec/mod.rs", "alloc/src/vec/mod.rs"),
            ("/home/me/.cargo/registry/src/index.crates.io-0123/spin-0.12.3/src/lib.rs", "spin-0.12.3/src/lib.rs"),
            ("/home/me/library/mine.rs", "/home/me/library/mine.rs"),
        ] {
            assert_eq!(super::short(path, &directories), short);
        }
    }
}
