//! Paths that cargo, the compiler or the linker cannot use. They are refused before something is built, with a message
//! that names the path and the character.

use std::path::Path;

use crate::Error;

/// Characters that a folder for intermediate files cannot have in its path, and what cannot use them:
///
/// - Cargo puts paths below this folder, and below the target directory, into `LD_LIBRARY_PATH`, whose entries are
///   separated by `:`.
/// - LLVM's linker replaces `%` by random digits in the name of its output.
/// - Flags of the compiler are separated by the byte 0x1f in `CARGO_ENCODED_RUSTFLAGS`.
const NOT_IN_BUILDS: [(char, &str); 3] = [NOT_IN_TARGETS, ('%', "the linker"), ('\x1f', "cargo")];
const NOT_IN_TARGETS: (char, &str) = (':', "cargo");

/// Checks that a path is Unicode, which cargo requires of all paths.
///
/// # Errors
///
/// [`Error::Usage`] if the path is not Unicode.
pub(crate) fn check_unicode(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| {
        let invalid = path.as_os_str().as_encoded_bytes().utf8_chunks().find_map(|chunk| chunk.invalid().first());
        Error::Usage(format!(
            "the path `{}` has the byte {:#04x}, which is not Unicode",
            path.display(),
            invalid.unwrap_or(&0)
        ))
    })
}

/// Checks that a folder can be used for the intermediate files of a build.
///
/// # Errors
///
/// [`Error::Usage`] if its path has a character for which a build fails.
pub(crate) fn check_build_folder(path: &Path) -> Result<(), Error> {
    check(path, &NOT_IN_BUILDS)
}

/// Checks that a folder can be used as target directory, if the intermediate files of the build are elsewhere.
///
/// # Errors
///
/// [`Error::Usage`] if its path has a character for which a build fails.
pub(crate) fn check_target_folder(path: &Path) -> Result<(), Error> {
    check(path, &[NOT_IN_TARGETS])
}

fn check(path: &Path, forbidden: &[(char, &str)]) -> Result<(), Error> {
    let text = check_unicode(path)?;
    match forbidden.iter().find(|(character, _)| text.contains(*character)) {
        None => Ok(()),
        Some((character, program)) => Err(Error::Usage(format!(
            "the path `{}` of the files that are built has the character `{}`, which {program} cannot use: \
             set CARGO_TARGET_DIR to another folder",
            path.display(),
            character.escape_default()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn refusal_names_the_path_and_the_character() {
        for (path, part) in [
            ("/a:b/c", "the path `/a:b/c` of the files that are built has the character `:`, which cargo"),
            ("/a%41", "`/a%41` of the files that are built has the character `%`, which the linker"),
            ("/a\x1f", "the character `\\u{1f}`, which cargo"),
        ] {
            let error = check_build_folder(Path::new(path)).expect_err("refused");
            assert!(error.to_string().contains(part) && error.status() == 64, "{error}");
        }
        let invalid = Path::new(OsStr::from_bytes(b"/a\xffb"));
        let error = check_build_folder(invalid).expect_err("refused");
        assert_eq!(error.to_string(), "the path `/a\u{fffd}b` has the byte 0xff, which is not Unicode");
        let others: String = (' '..='~').filter(|character| !":%".contains(*character)).collect();
        assert_eq!(check_build_folder(Path::new(&format!("/{others}\n\t/größer"))), Ok(()));
        assert_eq!(check_target_folder(Path::new("/a%41\x1f")), Ok(()));
        assert!(check_target_folder(Path::new("/a:b")).is_err());
    }
}
