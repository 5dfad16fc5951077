//! Finds the function and line of an address in an ELF file.

use core::fmt::Write as _;
use std::env;
use std::path::{Path, PathBuf};

use addr2line::Loader;

/// The functions and lines of an ELF file.
pub(crate) struct Symbols {
    pub(crate) program: PathBuf,
    /// `None` until the symbols are first used. The inner `None` means that loading them failed.
    loader: Option<Option<Loader>>,
    /// Folders that are removed from the beginning of paths of source files. The first is the workspace of the kernel,
    /// and the second is the current directory.
    directories: [PathBuf; 2],
}

impl Symbols {
    pub(crate) fn new(program: &Path) -> Self {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("")).to_owned();
        let directories = [workspace, env::current_dir().unwrap_or_default()];
        Self { program: program.to_owned(), loader: None, directories }
    }

    /// Returns ` function (file:line)` for an address. If the function was inlined into other functions, one more line
    /// follows for each of these. Returns an empty text if the address is unknown.
    pub(crate) fn describe(&mut self, address: u64) -> String {
        self.describe_if(address, |_| true).unwrap_or_default()
    }

    /// Returns the same text as [`describe`](Self::describe), but without functions of the kernel or a library. Returns
    /// an empty text if the address is only in such functions, and `None` if the address is unknown.
    pub(crate) fn describe_own(&mut self, address: u64) -> Option<String> {
        let workspace = self.directories[0].clone();
        self.describe_if(address, |file| file.is_some_and(|file| is_own(file, &workspace)))
    }

    /// Describes an address. Omits the functions for whose source file `is_wanted` returns false. Returns `None` if the
    /// address is unknown.
    fn describe_if(&mut self, address: u64, is_wanted: impl Fn(Option<&str>) -> bool) -> Option<String> {
        let loader = self.loader.get_or_insert_with(|| Loader::new(&self.program).ok()).as_ref()?;
        // The line tables also describe functions that the linker has removed. The addresses of these functions are
        // near zero, so an address outside of the code counts as unknown.
        let code = loader.get_section_range(b".text");
        if !code.is_some_and(|code| (code.begin..code.end).contains(&address)) {
            return None;
        }
        let mut frames = Vec::new();
        if let Ok(mut found) = loader.find_frames(with_line(loader, address, &self.directories[0])) {
            while let Ok(Some(frame)) = found.next() {
                frames.push(frame);
            }
        }
        let mut text = String::new();
        for (index, frame) in frames.iter().enumerate() {
            // The symbol is preferred to the name in the line tables, because only the symbol includes the module. A
            // function that was inlined has no symbol.
            let is_real = index + 1 == frames.len();
            let symbol = loader.find_symbol(address).filter(|_| is_real);
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let Some(name) = symbol.or(name.as_deref()) else { continue };
            if !is_wanted(frame.location.as_ref().and_then(|location| location.file)) {
                continue;
            }
            text.push_str(if text.is_empty() { " " } else { "\n     inlined into " });
            write_frame(&mut text, name, frame.location.as_ref(), &self.directories);
        }
        if frames.is_empty()
            && is_wanted(None)
            && let Some(name) = loader.find_symbol(address)
        {
            text.push(' ');
            write_frame(&mut text, name, None, &self.directories);
        }
        Some(text)
    }
}

/// How many bytes after an address [`with_line`] searches for a line of the program.
const SEARCHED: u64 = 16 * 1024;

/// Returns an address whose source line describes `address`. If the compiler has assigned a line to `address`, this is
/// `address` itself. A stack probe, with which a function with a large frame begins, has no line. The function may
/// belong to the scheduler, and the closure of a G may be inlined into it. So for an address without a line, returns
/// the next address in the same function that belongs to a line of the program. If there is none, returns `address`.
/// `workspace` is the workspace of the kernel.
fn with_line(loader: &Loader, address: u64, workspace: &Path) -> u64 {
    let has_line = |location: &addr2line::Location<'_>| location.line.is_some_and(|line| line != 0);
    let function_at = |address| loader.find_symbol_info(address).map(|symbol| symbol.address());
    if loader.find_location(address).is_ok_and(|location| location.is_some_and(|location| has_line(&location))) {
        return address;
    }
    let Ok(lines) = loader.find_location_range(address, address + SEARCHED) else { return address };
    let in_function = lines.take_while(|(at, ..)| function_at(*at) == function_at(address));
    let of_program = |location: &addr2line::Location<'_>| location.file.is_some_and(|file| is_own(file, workspace));
    let first = in_function.filter(|(_, _, location)| has_line(location) && of_program(location)).map(|(at, ..)| at);
    first.filter(|&at| at > address).min().unwrap_or(address)
}

/// Returns whether a source file belongs to a program. Other files belong to the kernel, the scheduler or `boot` (in
/// the folder `workspace`), to Rust's library, or to downloaded crates.
fn is_own(file: &str, workspace: &Path) -> bool {
    let of_kernel =
        ["kernel", "gmp-sched", "boot"].iter().any(|part| Path::new(file).starts_with(workspace.join(part)));
    let of_library = file.starts_with("/rustc/") || file.contains("/rustlib/src/");
    !of_kernel && !of_library && !file.contains("/registry/src/") && !file.contains("/git/checkouts/")
}

fn write_frame(text: &mut String, name: &str, location: Option<&addr2line::Location<'_>>, directories: &[PathBuf]) {
    match rustc_demangle::try_demangle(name) {
        // The alternate form of `Display` (`#`) omits the hash in the symbol. Writing to a `String` cannot fail.
        Ok(path) => write!(text, "{path:#}").unwrap_or_default(),
        // A name from the line tables contains no module. It contains all type arguments, which are removed here.
        Err(_) => text.push_str(name.split_once('<').map_or(name, |(function, _)| function)),
    }
    let file = location.and_then(|location| location.file);
    let line = location.and_then(|location| location.line);
    if let (Some(file), Some(line)) = (file, line) {
        let _ = write!(text, " ({}:{line})", short(file, directories));
    }
}

/// Shortens the path of a source file. Removes the beginning of the path if that is one of `directories`, the folder of
/// Rust's library, or the folder of the crate registry.
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
    use std::path::Path;

    #[test]
    fn files_of_programs_are_told_from_those_of_libraries() {
        let is_own = |file| super::is_own(file, Path::new("/home/me/project"));
        for own in
            ["/home/me/mine/src/main.rs", "/home/me/project/programs/src/bin/tour.rs", "/home/me/kernel/src/main.rs"]
        {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "/home/me/project/kernel/src/program/mod.rs",
            "/home/me/project/gmp-sched/src/engine/park.rs",
            "/rustc/0123abcd/library/core/src/ops/function.rs",
            "/r/lib/rustlib/src/rust/library/alloc/src/boxed.rs",
            "/home/me/.cargo/registry/src/index.crates.io-0123/spin-0.12.3/src/lib.rs",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn paths_are_shortened_to_their_relevant_part() {
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
