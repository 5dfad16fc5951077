//! Creates the crate of a new program: `cargo run -- new PATH`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::checkout;
use crate::paths::check_unicode;
use crate::qemu::shell_quoted;

/// The source of the program with which a new crate begins.
const PROGRAM: &str = include_str!("program.rs");

/// The `Cargo.lock` of the kernel's workspace, as it was when this command was compiled. It lists the packages of the
/// workspace.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// Words that cannot be the name of a crate or of its binary. They are keywords of Rust, names of Rust's libraries, and
/// names of cargo's folders.
#[rustfmt::skip]
const TAKEN: &[&str] = &[
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "build", "const", "continue", "core", "crate",
    "deps", "do", "dyn", "else", "enum", "examples", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
    "incremental", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "proc_macro", "pub",
    "ref", "return", "self", "static", "std", "struct", "super", "test", "trait", "true", "try", "type", "typeof", "unsafe",
    "unsized", "use", "virtual", "where", "while", "yield",
];

/// Creates a crate with a program and a test in the new folder `path`. Returns a text that explains how to run the
/// program.
///
/// # Errors
///
/// [`Error::Usage`] if the folder's name cannot be the name of a crate, if the folder exists already, or if it cannot
/// be written.
pub fn create(path: &Path) -> Result<String, Error> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check_name(name)?;
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Usage(format!("`{}` exists already", path.display())),
        _ => Error::Usage(format!("cannot make `{}`: {error}", path.display())),
    };
    fs::create_dir(path).map_err(cannot)?;
    fill(path, name, cannot).inspect_err(|_| {
        // Otherwise an incomplete crate would remain, and the next attempt would fail because the folder exists. An
        // error of the removal is ignored, because the first error is reported.
        let _ = fs::remove_dir_all(path);
    })?;
    let (shown, boot) = (path.display(), boot_command(path));
    Ok(format!(
        "Made the program `{name}` in `{shown}`. In that folder\n  \
         cargo run      runs it on threads of this host\n  \
         cargo test     runs its tests\n\
         and here\n  \
         {boot}\n                 boots it on a machine of its own\n"
    ))
}

/// Writes the files of the crate `name` into the folder `path`, which is empty. `cannot` converts an I/O error to the
/// error that is returned.
fn fill(path: &Path, name: &str, cannot: impl Fn(io::Error) -> Error) -> Result<(), Error> {
    let folder = path.canonicalize().map_err(&cannot)?;
    let root = checkout::root().canonicalize().map_err(&cannot)?;
    let kernel = kernel_from(&folder, &root);
    check_unicode(&folder).and_then(|_| check_unicode(&kernel))?;
    fs::create_dir(folder.join("src")).map_err(&cannot)?;
    fs::write(folder.join("Cargo.toml"), manifest(name, &kernel)).map_err(&cannot)?;
    fs::write(folder.join("src/main.rs"), PROGRAM).map_err(&cannot)?;
    // `trace` is the name that the documentation uses for the trace of a program on threads.
    fs::write(folder.join(".gitignore"), "/target\n/trace\n").map_err(&cannot)?;
    // With this `Cargo.lock` the crate uses the versions of the dependencies with which the kernel is tested. These
    // versions have been downloaded already.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(&cannot)?;
    Ok(())
}

/// Returns the command that boots the crate in the folder `path`.
fn boot_command(path: &Path) -> String {
    // One component alone could be the name of a program in `programs`, or a word such as `new`.
    let path = if path.components().count() == 1 { Path::new(".").join(path) } else { path.to_owned() };
    format!("cargo run -- {}", shell_quoted([path.as_os_str()]))
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '-' | '_'));
    if !is_word {
        return Err(Error::Usage(format!(
            "`{name}` cannot be the name of a crate: such a name begins with a letter and has letters, digits, `-` and `_`"
        )));
    }
    if TAKEN.contains(&name.replace('-', "_").as_str()) {
        return Err(Error::Usage(format!(
            "`{name}` cannot be the name of a program: Rust or cargo uses it. Try `my-{name}`"
        )));
    }
    if packages().any(|package| package == name) {
        return Err(Error::Usage(format!(
            "`{name}` cannot be the name of a program: a package of the kernel's workspace has it. Try `my-{name}`"
        )));
    }
    Ok(())
}

/// Returns the names of the packages of the kernel's workspace. A `Cargo.lock` cannot have two packages with the same
/// name and version if both come from folders.
fn packages() -> impl Iterator<Item = &'static str> {
    let packages = LOCK.split("[[package]]").filter(|package| !package.contains("\nsource = "));
    packages.filter_map(|package| package.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')))
}

/// Returns the path of the kernel for the crate's manifest. If the crate is in the kernel's tree, the path is relative,
/// so that the tree can be moved.
fn kernel_from(folder: &Path, root: &Path) -> PathBuf {
    match folder.strip_prefix(root) {
        Ok(inside) => inside.components().map(|_| "..").collect::<PathBuf>().join("kernel"),
        Err(_) => root.join("kernel"),
    }
}

fn manifest(name: &str, kernel: &Path) -> String {
    let kernel = toml_text(&kernel.display().to_string());
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"

[dependencies]
kernel = {{ path = {kernel} }}

# For what only the machine can do, `#[cfg(gmp_machine)]`.
[lints.rust]
unexpected_cfgs = {{ level = "warn", check-cfg = ["cfg(gmp_machine)"] }}

# As for the kernel's own programs, so that instructions are counted (`--icount`) of the same code.
[profile.release]
codegen-units = 1

# A workspace of its own, wherever the folder is.
[workspace]
"#
    )
}

/// Returns a text as TOML writes it, in quotes.
fn toml_text(text: &str) -> String {
    let escaped = text.chars().map(|character| match character {
        '"' | '\\' => format!("\\{character}"),
        _ if character.is_control() => format!("\\u{:04x}", u32::from(character)),
        _ => character.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cargo_would_refuse_are_refused() {
        for name in
            ["", "1st", "-x", "a b", "a/b", "ä", "_", "fn", "self", "test", "std", "kernel", "proc-macro", "deps"]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["gmp-sched", "kernel", "boot-protocol", "kernel-formats", "kernel-virtio"] {
            let error = check_name(name).expect_err("refused").to_string();
            assert!(
                error.ends_with(&format!("a package of the kernel's workspace has it. Try `my-{name}`")),
                "{error}"
            );
        }
        for name in ["a", "hello", "my-program", "my_program", "x2", "Kernel2", "log"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn crate_is_booted_by_its_path_whatever_its_name_is() {
        for (path, expected) in [
            ("tour", "cargo run -- ./tour"),
            ("new/", "cargo run -- ./new/"),
            ("./tour", "cargo run -- ./tour"),
            ("../a b/tour", "cargo run -- '../a b/tour'"),
            ("/x/tour", "cargo run -- /x/tour"),
        ] {
            assert_eq!(boot_command(Path::new(path)), expected);
        }
    }

    #[test]
    fn kernel_is_named_relative_to_a_crate_in_its_tree() {
        let from = |folder: &str| kernel_from(Path::new(folder), Path::new("/tree"));
        assert_eq!(from("/tree/a"), Path::new("../kernel"));
        assert_eq!(from("/tree/a/b"), Path::new("../../kernel"));
        assert_eq!(from("/elsewhere/a"), Path::new("/tree/kernel"));
        assert_eq!(from("/tree2/a"), Path::new("/tree/kernel"));
    }

    #[test]
    fn manual_shows_what_is_made() {
        let page = include_str!("../../../docs/manual/writing-a-program.md");
        assert!(page.contains(&format!("```rust\n{PROGRAM}```")));
        let manifest = manifest("my-program", Path::new("/path/to/this/tree/kernel"));
        assert!(page.contains(&format!("```toml\n{manifest}```")));
    }

    #[test]
    fn path_with_quotes_is_escaped_in_the_manifest() {
        assert!(manifest("a", Path::new(r#"/a "b"\c"#)).contains(r#"path = "/a \"b\"\\c""#));
        assert!(manifest("a", Path::new("/a\n\u{7f}ß'")).contains("path = \"/a\\u000a\\u007fß'\""));
    }
}
