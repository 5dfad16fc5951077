//! Finds files that a command line names twice. Two results in one file would overwrite each other, and a result in a
//! file that is read would overwrite what is to be read.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::Error;

/// A file that a command line names: the option that names the file, and the name.
pub type Named = (&'static str, PathBuf);

/// Checks that `written` does not name a file twice, and that no file in `written` is also named in `others`.
///
/// # Errors
///
/// [`Error::Usage`] if a file is named twice in this way.
pub fn check(written: &[Named], others: &[Named]) -> Result<(), Error> {
    let named = written.iter().chain(others).map(|(option, name)| (option, name, Identity::of(name)));
    let named: Vec<_> = named.collect();
    for (index, (option, name, identity)) in named[..written.len()].iter().enumerate() {
        if let Some((other, ..)) = named[index + 1..].iter().find(|other| other.2.is_some() && other.2 == *identity) {
            return Err(Error::Usage(format!("{option} and {other} use the same file, {}", name.display())));
        }
    }
    Ok(())
}

/// What two names of the same file have in common.
#[derive(PartialEq, Eq)]
enum Identity {
    /// The device and the number of the file.
    Number(u64, u64),
    /// The path of a file that does not exist yet. The path of its folder is canonical, so all names of this file have
    /// the same path.
    Name(PathBuf),
}

impl Identity {
    /// Returns `None` for a device such as `/dev/null`, to which several results can be written.
    fn of(name: &Path) -> Option<Self> {
        match name.metadata() {
            Ok(file) if file.file_type().is_char_device() => None,
            Ok(file) => Some(Self::Number(file.dev(), file.ino())),
            Err(_) => Some(Self::Name(future_name(name))),
        }
    }
}

/// Returns the name under which a file would be made. If the name is that of a symbolic link, the file is made where
/// the link leads.
fn future_name(name: &Path) -> PathBuf {
    /// As many links as Linux follows.
    const MOST_LINKS: usize = 40;
    let folder_of = |name: &Path| match name.parent() {
        Some(folder) if folder != "" => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut name = name.to_owned();
    for _ in 0..MOST_LINKS {
        match name.read_link() {
            Ok(target) => name = folder_of(&name).join(target),
            Err(_) => break,
        }
    }
    match (fs::canonicalize(folder_of(&name)), name.file_name()) {
        (Ok(folder), Some(last)) => folder.join(last),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use core::slice::from_ref;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_of_one_file_are_found_by_all_ways_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        fs::write(place("old"), "content").expect("written");
        fs::hard_link(place("old"), place("hard")).expect("a link");
        for (target, link) in [("old", "soft"), ("new", "first"), ("first", "second"), ("loop", "loop")] {
            symlink(target, place(link)).expect("a link");
        }
        symlink(".", place("here")).expect("a link");
        let check = |one: &str, other: &str| check(&[("--a", place(one))], &[("--b", place(other))]);
        for (one, other) in [
            ("old", "old"),
            ("old", "./old"),
            ("old", "hard"),
            ("soft", "hard"),
            ("new", "new"),
            ("new", "here/./here/new"),
            ("new", "second"),
            ("here/first", "new"),
        ] {
            let error = check(one, other).expect_err("one file");
            let expected = format!("--a and --b use the same file, {}", place(one).display());
            assert_eq!(error, Error::Usage(expected), "{one}, {other}");
        }
        for (one, other) in [("old", "new"), ("new", "newer"), ("new", "missing/new"), ("loop", "new")] {
            assert_eq!(check(one, other), Ok(()), "{one}, {other}");
        }
    }

    #[test]
    fn only_files_that_are_written_must_differ_and_devices_need_not() {
        let [null, file] = ["/dev/null", "Cargo.toml"].map(|name| ("--x", PathBuf::from(name)));
        assert_eq!(check(&[null.clone(), null], &[]), Ok(()));
        assert_eq!(check(&[], &[file.clone(), file.clone()]), Ok(()));
        assert!(check(&[file.clone(), file.clone()], &[]).is_err());
        assert!(check(from_ref(&file), from_ref(&file)).is_err());
    }
}
