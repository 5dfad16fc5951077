//! Temporary folders, in which files are prepared. Such a folder is removed when its [`TemporaryFolder`] is dropped,
//! and also if SIGINT, SIGTERM or SIGHUP ends this process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use tempfile::TempDir;

/// The names of temporary folders begin with this word.
const PREFIX: &str = ".unfinished-";

static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn folders() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // Poisoning is ignored, because the set is consistent even if a holder of the lock has panicked.
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all temporary folders of this process. Called when a signal ends this process.
pub(crate) fn remove_all() {
    for folder in folders().iter() {
        // An error is ignored, because the process is about to end. A later process removes what is left, by
        // `remove_left_over`.
        let _ = fs::remove_dir_all(folder);
    }
}

/// Removes the temporary folders in `parent` that earlier processes have left. A process leaves its folders if SIGKILL
/// ends it. The caller ensures that no other process is using a temporary folder in `parent`.
///
/// # Errors
///
/// If a folder cannot be removed.
pub(crate) fn remove_left_over(parent: &Path) -> io::Result<()> {
    for entry in parent.read_dir()?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// A temporary folder, for files that are not finished yet. Dropping this value removes the folder.
#[derive(Debug)]
pub(crate) struct TemporaryFolder(TempDir);

impl TemporaryFolder {
    /// Makes a folder in `parent`.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made.
    pub(crate) fn new_in(parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        folders().insert(folder.path().to_owned());
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        folders().remove(self.0.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_removed_when_dropped_or_left_over() {
        let parent = tempfile::tempdir().expect("a directory");
        let folder = TemporaryFolder::new_in(parent.path()).expect("made");
        fs::write(folder.path().join("file"), "text").expect("written");
        drop(folder);
        assert_eq!(parent.path().read_dir().expect("a directory").count(), 0);
        fs::create_dir_all(parent.path().join(".unfinished-x/y")).expect("made");
        fs::create_dir(parent.path().join("finished")).expect("made");
        remove_left_over(parent.path()).expect("removed");
        let left: Vec<_> =
            parent.path().read_dir().expect("a directory").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["finished"]);
    }
}
