//! Finds the functions and lines of an address in an ELF file.
#![deny(unsafe_code)]

use core::fmt;
use std::path::{Path, PathBuf};

use addr2line::Loader;

/// The functions and lines of an ELF file.
pub struct Symbols {
    /// `None` if the file cannot be read.
    loader: Option<Loader>,
    /// The address in the file is the address in the running program minus this offset.
    offset: u64,
    /// The workspace of the kernel and the scheduler.
    workspace: PathBuf,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Symbols").field("is_loaded", &self.loader.is_some()).finish_non_exhaustive()
    }
}

/// One function at an address. If the function was inlined, the next frame at this address is the function that
/// contains it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The name of the function.
    pub function: String,
    /// The path of its source file; empty if it is unknown.
    pub file: String,
    /// The line that is executed; 0 if it is unknown.
    pub line: u32,
}

impl Symbols {
    /// Reads the symbols of the ELF file `program`. If that fails, all addresses are unknown.
    #[must_use]
    pub fn new(program: &Path) -> Self {
        // This crate is in the folder `boot/symbols` of the workspace.
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("")).to_owned();
        Self { loader: Loader::new(program).ok(), offset: 0, workspace }
    }

    /// Reads the symbols of the calling program.
    #[must_use]
    pub fn of_this_program() -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        let symbols = Self::new(&program);
        let code = symbols.loader.as_ref().and_then(|loader| loader.get_section_range(b".text"));
        let base = base_of(&program).unwrap_or(0);
        // A program that is not position-independent is loaded at the addresses that its file specifies.
        let is_fixed = code.is_some_and(|code| code.begin >= base);
        Self { offset: if is_fixed { 0 } else { base }, ..symbols }
    }

    /// Returns the functions at an address, innermost first. Returns `None` if the address is not in the code of the
    /// program.
    #[must_use]
    pub fn frames(&self, address: u64) -> Option<Vec<Frame>> {
        let loader = self.loader.as_ref()?;
        let address = address.checked_sub(self.offset)?;
        // The line tables also describe functions that the linker has removed. The addresses of these functions are
        // near zero, so an address outside of the code counts as unknown.
        let code = loader.get_section_range(b".text");
        if !code.is_some_and(|code| (code.begin..code.end).contains(&address)) {
            return None;
        }
        let mut found = Vec::new();
        if let Ok(mut frames) = loader.find_frames(with_line(loader, address, &self.workspace)) {
            while let Ok(Some(frame)) = frames.next() {
                found.push(frame);
            }
        }
        let symbol = loader.find_symbol(address);
        let mut result = Vec::new();
        for (index, frame) in found.iter().enumerate() {
            // The symbol is preferred to the name in the line tables, because only the symbol includes the module. A
            // function that was inlined has no symbol.
            let is_real = index + 1 == found.len();
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let Some(name) = symbol.filter(|_| is_real).or(name.as_deref()) else { continue };
            let location = frame.location.as_ref();
            result.push(Frame {
                function: readable(name),
                file: location.and_then(|location| location.file).unwrap_or_default().to_owned(),
                line: location.and_then(|location| location.line).unwrap_or_default(),
            });
        }
        if found.is_empty() {
            result.extend(symbol.map(|name| Frame { function: readable(name), file: String::new(), line: 0 }));
        }
        Some(result)
    }

    /// Whether a source file belongs to a program. Other files belong to the kernel, the scheduler or `boot`, to Rust's
    /// library, or to downloaded crates.
    #[must_use]
    pub fn is_own(&self, file: &str) -> bool {
        is_own(file, &self.workspace)
    }
}

/// Returns the lowest address of the file `program` in the memory of the calling program.
fn base_of(program: &Path) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let first = maps.lines().find(|line| line.ends_with(program.to_string_lossy().as_ref()))?;
    u64::from_str_radix(first.split('-').next()?, 16).ok()
}

fn readable(name: &str) -> String {
    match rustc_demangle::try_demangle(name) {
        // The alternate form of `Display` (`#`) omits the hash in the symbol.
        Ok(path) => format!("{path:#}"),
        // A name from the line tables contains no module. It contains all type arguments, which are removed here.
        Err(_) => name.split_once('<').map_or(name, |(function, _)| function).to_owned(),
    }
}

/// How many bytes after an address [`with_line`] searches for a line of the program.
const SEARCHED: u64 = 16 * 1024;

/// Returns an address whose source line describes `address`. If the compiler has assigned a line to `address`, this is
/// `address` itself. A stack probe, with which a function with a large frame begins, has no line. For such an address,
/// returns the next address in the same function that belongs to a line of the program, or `address` if there is none.
/// (A line of the scheduler would be wrong, because the closure of a G may be inlined into a function of the
/// scheduler.) `workspace` is the workspace of the kernel.
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

/// Shortens the path of a source file. Removes the beginning of the path if that is one of `directories`, the folder of
/// Rust's library, or the folder of the crate registry.
#[must_use]
pub fn short<'a>(file: &'a str, directories: &[PathBuf]) -> &'a str {
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
        for own in [
            "/home/me/mine/src/main.rs",
            "/home/me/project/programs/src/bin/tour/main.rs",
            "/home/me/kernel/src/main.rs",
        ] {
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
