//! A *filling*: what stands in the holes of a lab. The starter, a solution, a wrong solution and what a student submits
//! are fillings, and all of them are files of the same form: each part between two markers belongs to the hole with
//! the name in the markers.
//!
//! ```text
//! // ANCHOR: push_back
//!         Err(Full)
//! // ANCHOR_END: push_back
//! ```
//!
//! A wrong solution may also be a change of the solution, in a file `*.diff`.
//!
//! The source files have the same markers around their holes. They are those of mdBook, so a book can show a hole, too.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::lab::Hole;

const BEGIN: &str = "// ANCHOR: ";
const END: &str = "// ANCHOR_END: ";

/// The texts of holes, by their names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Filling(BTreeMap<String, String>);

/// What is wrong with a text that should have markers.
type Reason = String;

impl Filling {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| Error::file("read", path, &error))?;
        Self::parse(&text).map_err(|reason| Error::new(format!("{}: {reason}", path.display())))
    }

    /// Returns the parts between the markers of `text`.
    pub(crate) fn parse(text: &str) -> core::result::Result<Self, Reason> {
        let mut parts = BTreeMap::new();
        let mut open: Option<(&str, String)> = None;
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let trimmed = line.trim();
            if let Some(name) = trimmed.strip_prefix(BEGIN) {
                if let Some((inside, _)) = open {
                    return Err(format!("line {number}: `{name}` begins in `{inside}`"));
                }
                open = Some((name, String::new()));
            } else if let Some(name) = trimmed.strip_prefix(END) {
                match open.take() {
                    Some((begun, part)) if begun == name => {
                        if parts.insert(name.to_string(), part).is_some() {
                            return Err(format!("line {number}: a second `{name}`"));
                        }
                    }
                    _ => return Err(format!("line {number}: `{name}` ends, but has not begun")),
                }
            } else if let Some((_, part)) = &mut open {
                part.push_str(line);
            }
        }
        match open {
            Some((name, _)) => Err(format!("`{name}` has no end")),
            None => Ok(Self(parts)),
        }
    }

    /// Returns what stands in `holes` in the workspace at `root`.
    pub(crate) fn of_tree(root: &Path, holes: &[Hole]) -> Result<Self> {
        let mut filling = Self::default();
        for hole in holes {
            let path = root.join(&hole.file);
            let part = Self::read(&path)?.0.remove(&hole.name).ok_or_else(|| {
                Error::new(format!(
                    "{} has no markers of the hole `{}`; git has them: `git diff` shows what is gone",
                    path.display(),
                    hole.name
                ))
            })?;
            filling.0.insert(hole.name.clone(), part);
        }
        Ok(filling)
    }

    /// Puts the texts into those of `holes` that this filling has a text for, in the workspace at `root`.
    pub(crate) fn fill(&self, root: &Path, holes: &[Hole]) -> Result<()> {
        for hole in holes {
            let Some(part) = self.0.get(&hole.name) else { continue };
            let path = root.join(&hole.file);
            let text = fs::read_to_string(&path).map_err(|error| Error::file("read", &path, &error))?;
            let filled = replace(&text, &hole.name, part)
                .ok_or_else(|| Error::new(format!("{} has no markers of the hole `{}`", path.display(), hole.name)))?;
            // A file that stays the same keeps its time, so that cargo builds nothing anew.
            if filled != text {
                fs::write(&path, filled).map_err(|error| Error::file("write", &path, &error))?;
            }
        }
        Ok(())
    }

    /// The names of the holes in which this filling has the same text as `other`.
    pub(crate) fn same_as<'a>(&'a self, other: &Self) -> Vec<&'a str> {
        self.0.iter().filter(|(name, part)| other.0.get(*name) == Some(part)).map(|(name, _)| name.as_str()).collect()
    }

    /// This filling, with the texts of `other` where it has any.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut both = self.0.clone();
        both.extend(other.0.clone());
        Self(both)
    }

    /// This filling, as the file at `path` changes it. A `.diff` has a change of some lines. Any other file has the new texts
    /// of some holes.
    pub(crate) fn changed_by(&self, path: &Path) -> Result<Self> {
        if path.extension().is_none_or(|ending| ending != "diff") {
            return Ok(self.with(&Self::read(path)?));
        }
        let change = fs::read_to_string(path).map_err(|error| Error::file("read", path, &error))?;
        self.change(&change).map_err(|reason| Error::new(format!("{}: {reason}", path.display())))
    }

    /// This filling, with one run of lines replaced: those of `change` that begin with ` ` or `-`, by those that begin with ` ` or
    /// `+`. Other lines of `change` are a comment. The lines that are replaced must occur exactly once, in one of the holes.
    fn change(&self, change: &str) -> core::result::Result<Self, Reason> {
        let lines =
            |sign| change.split_inclusive('\n').filter_map(|line| line.strip_prefix([' ', sign])).collect::<String>();
        let (from, to) = (lines('-'), lines('+'));
        let count: usize = self.0.values().map(|part| part.matches(&from).count()).sum();
        if count != 1 {
            return Err(format!("it must replace what the holes have once, but this occurs {count} times:\n{from}"));
        }
        Ok(Self(self.0.iter().map(|(name, part)| (name.clone(), part.replace(&from, &to))).collect()))
    }

    /// Checks that there is a text for each of `holes`, that there are no others, and that no text uses what a grader
    /// cannot allow (see [`forbidden`]), except for the words in `allowed`.
    pub(crate) fn check(&self, holes: &[Hole], allowed: &[String]) -> core::result::Result<(), Reason> {
        if holes.iter().all(|hole| !self.0.contains_key(&hole.name)) {
            return Err("it has none of the parts of this lab; is it the file of another one?".to_string());
        }
        for hole in holes {
            let part = self.0.get(&hole.name).ok_or_else(|| format!("the hole `{}` is missing", hole.name))?;
            let found = part.lines().find_map(|line| Some((line, forbidden(line, allowed)?)));
            if let Some((line, word)) = found {
                let (name, line) = (&hole.name, line.trim());
                return Err(format!(
                    "the hole `{name}` contains the word `{word}`, which is not allowed in this lab, also not in a comment:\n  {line}"
                ));
            }
        }
        match self.0.keys().find(|name| holes.iter().all(|hole| hole.name != **name)) {
            Some(name) => Err(format!("there is no hole `{name}` in this lab")),
            None => Ok(()),
        }
    }

    /// The file that contains this filling.
    pub(crate) fn to_file(&self, header: &str) -> String {
        let mut file = format!("//! {header}\n");
        for (name, part) in &self.0 {
            file.push_str(&format!("\n{BEGIN}{name}\n{part}{END}{name}\n"));
        }
        file
    }
}

/// Returns `text` with `part` between the markers of `name`. Returns `None` if `text` does not have both markers.
fn replace(text: &str, name: &str, part: &str) -> Option<String> {
    let line_of = |marker: &str| {
        let mut at = 0;
        text.split_inclusive('\n').find_map(|line| {
            at += line.len();
            (line.trim().strip_prefix(marker) == Some(name)).then_some((at - line.len(), at))
        })
    };
    let ((_, from), (to, _)) = (line_of(BEGIN)?, line_of(END)?);
    (from <= to).then(|| [&text[..from], part, &text[to..]].concat())
}

/// Returns `text` without what is between the markers of `name`.
pub(crate) fn without(text: &str, name: &str) -> String {
    replace(text, name, "").unwrap_or_else(|| text.to_string())
}

/// Words with which code could leave the library that it is a part of: it could read the files of the grader, end the
/// test's process, or write to the test's memory. With `cfg`, the code could be another when it is graded. The mechanisms
/// of most labs need none of these words; `allows` in `lab.toml` has the exceptions. `nix` is a crate on which the
/// scheduler depends, and with which safe code could delete files.
const FORBIDDEN: [&str; 22] = [
    "asm",
    "cfg",
    "cfg_attr",
    "env",
    "export_name",
    "extern",
    "global_allocator",
    "global_asm",
    "include",
    "include_bytes",
    "include_str",
    "libc",
    "link_section",
    "macro_rules",
    "mod",
    "naked_asm",
    "nix",
    "no_mangle",
    "option_env",
    "std",
    "transmute",
    "unsafe",
];

/// Returns the first word of `code` that is in [`FORBIDDEN`] and not in `allowed`. Words in comments count, too, because only
/// a parser could recognise all comments.
fn forbidden<'a>(code: &'a str, allowed: &[String]) -> Option<&'a str> {
    let is_part_of_word = |character: char| character.is_alphanumeric() || character == '_';
    let is_forbidden = |word: &&str| FORBIDDEN.contains(word) && !allowed.iter().any(|allowed| allowed == word);
    code.split(|character| !is_part_of_word(character)).find(is_forbidden)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{FORBIDDEN, Filling, forbidden, replace};
    use crate::lab::{Hole, Lab};

    const TEXT: &str = "fn a() {\n    // ANCHOR: one\n    1\n    // ANCHOR_END: one\n}\n";

    fn hole(name: &str) -> Hole {
        Hole { file: "a.rs".to_string(), name: name.to_string() }
    }

    #[test]
    fn hole_is_found_and_filled() {
        let filling = Filling::parse(TEXT).unwrap();
        assert_eq!(filling.0["one"], "    1\n");
        assert_eq!(replace(TEXT, "one", "    2\n").unwrap(), TEXT.replace('1', "2"));
        assert_eq!(replace(TEXT, "two", ""), None);
    }

    #[test]
    fn file_of_a_filling_has_the_same_filling() {
        let filling = Filling::parse(TEXT).unwrap();
        assert_eq!(Filling::parse(&filling.to_file("Lab 1.")).unwrap(), filling);
    }

    #[test]
    fn change_replaces_what_occurs_once() {
        let filling = Filling::parse(&TEXT.replace("    1\n", "    1\n    2\n    1\n")).unwrap();
        assert_eq!(filling.change("//! Three.\n     1\n-    2\n+    3\n").unwrap().0["one"], "    1\n    3\n    1\n");
        for (change, count) in [("-    3\n", 0), ("-    1\n+    3\n", 2)] {
            assert!(filling.change(change).unwrap_err().contains(&format!("occurs {count} times")), "{change}");
        }
    }

    #[test]
    fn wrong_markers_are_refused() {
        for (text, reason) in [
            ("// ANCHOR: a\n", "`a` has no end"),
            ("// ANCHOR_END: a\n", "line 1: `a` ends, but has not begun"),
            ("// ANCHOR: a\n// ANCHOR: b\n", "line 2: `b` begins in `a`"),
            ("// ANCHOR: a\n// ANCHOR_END: a\n// ANCHOR: a\n// ANCHOR_END: a\n", "line 4: a second `a`"),
        ] {
            assert_eq!(Filling::parse(text).unwrap_err(), reason, "{text}");
        }
    }

    #[test]
    fn what_a_grader_cannot_allow_is_refused() {
        for code in [
            "unsafe { *pointer }",
            "std::process::exit(0)",
            "include!(\"x\")",
            "#[path = \"x\"] mod x;",
            "nix::unistd::unlink(c\"x\")",
        ] {
            assert!(forbidden(code, &[]).is_some(), "{code}");
        }
        for code in ["let environment = modulo(standard); // the fast path", "self.head.load(Ordering::Acquire)"] {
            assert_eq!(forbidden(code, &[]), None);
        }
        let allowed = ["unsafe".to_string()];
        assert_eq!(forbidden("unsafe { *pointer }", &allowed), None);
        for (code, word) in [
            ("unsafe { asm!() }", "asm"),
            ("#[unsafe(naked)] fn a() { core::arch::naked_asm!(\"syscall\") }", "naked_asm"),
            ("#[unsafe(export_name = \"memcmp\")] fn a() {}", "export_name"),
            ("#[global_allocator] static A: B = B;", "global_allocator"),
        ] {
            assert_eq!(forbidden(code, &allowed), Some(word));
        }
        let filling = Filling::parse(TEXT).unwrap();
        assert_eq!(filling.check(&[hole("one")], &[]), Ok(()));
        assert_eq!(filling.check(&[hole("one"), hole("two")], &[]), Err("the hole `two` is missing".to_string()));
        assert_eq!(
            filling.check(&[hole("two"), hole("three")], &[]).unwrap_err().split(';').next(),
            Some("it has none of the parts of this lab")
        );
        let two = Filling::parse(
            &TEXT
                .replace("    1\n", "    1\n// ANCHOR_END: one\n// ANCHOR: two\n    // of std\n")
                .replace("END: one\n}", "END: two\n}"),
        )
        .unwrap();
        assert_eq!(two.check(&[hole("one")], &[]), Err("there is no hole `two` in this lab".to_string()));
        let reason = two.check(&[hole("one"), hole("two")], &[]).unwrap_err();
        assert!(reason.contains("`two` contains the word `std`") && reason.ends_with("\n  // of std"), "{reason}");
    }

    /// The crates that code in a hole can name, because the crate of its file depends on them.
    #[test]
    fn dependencies_of_the_holes_are_harmless_or_forbidden() {
        // None of these reaches the system: they have no `std`.
        let harmless = [
            "crossbeam-utils",
            "embedded-io",
            "fastrand",
            "fnv",
            "foldhash",
            "gmp-sched",
            "hashbrown",
            "kernel",
            "lab-policy",
            "lab-puzzles",
            "lock_api",
            "smoltcp",
            "spin",
        ];
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for file in Lab::all(root).unwrap().iter().flat_map(Lab::files) {
            let manifest = root.join(file.split_once("/src/").unwrap().0).join("Cargo.toml");
            let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
            for name in manifest["dependencies"].as_table().unwrap().keys() {
                let is_known = harmless.contains(&name.as_str()) || FORBIDDEN.contains(&name.as_str());
                assert!(is_known, "{file} can use {name}");
            }
        }
    }
}
