//! The names of files that are written at the end of a run. They are checked before the run, so that a wrong name is
//! found before the program runs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Files that can be written. The content of a file that existed before is kept until a result is written, because the
/// run may end without a result. Dropping this value removes the files that did not exist before, if they are still
/// empty.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    /// The files that did not exist before.
    made: Vec<PathBuf>,
    /// All files. They stay open, because the reader of a named pipe would otherwise see its end.
    open: Vec<File>,
}

impl Reserved {
    /// Adds a file. Makes the file if it does not exist.
    ///
    /// # Errors
    ///
    /// If the file cannot be made, or cannot be opened for writing.
    pub(crate) fn add(&mut self, name: &Path) -> io::Result<()> {
        let file = match File::options().write(true).open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = File::options().write(true).create(true).truncate(false).open(name)?;
                self.made.push(name.to_owned());
                file
            }
            opened => opened?,
        };
        self.open.push(file);
        Ok(())
    }

    /// Makes all files stay, even empty ones. Called when the results have been written, because a result may be empty.
    pub(crate) fn keep(&mut self) {
        self.made.clear();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for name in &self.made {
            if name.metadata().is_ok_and(|file| file.len() == 0) {
                // An error is ignored, because an empty file does no harm.
                let _ = fs::remove_file(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_a_result_is_as_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        fs::write(&old, "content").expect("written");
        for is_kept in [false, true] {
            let mut reserved = Reserved::default();
            for name in [&old, &new] {
                reserved.add(name).expect("a file");
            }
            assert!(new.exists());
            if is_kept {
                reserved.keep();
            }
            drop(reserved);
            assert_eq!(fs::read_to_string(&old).expect("text"), "content");
            assert_eq!(new.exists(), is_kept);
        }
        assert!(Reserved::default().add(&folder.path().join("no/file")).is_err());
    }
}
