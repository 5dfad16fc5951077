//! The folder in which downloads are kept: `gmp-compare` in the folder that `XDG_CACHE_HOME` names, by default
//! `~/.cache`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, iter};

use crate::Error;
use crate::console::say;
use crate::host_program;
use crate::temporary::{TemporaryFolder, remove_left_over};

/// The folder with downloads.
#[derive(Debug)]
pub struct Cache(PathBuf);

impl Cache {
    /// Finds the path of the folder. The folder need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if neither `XDG_CACHE_HOME` nor `HOME` is set.
    pub fn find() -> Result<Self, Error> {
        let named = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let folder = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
        let folder = folder.ok_or_else(|| Error::Usage("neither HOME nor XDG_CACHE_HOME is set".to_owned()))?;
        Ok(Self(folder.join("gmp-compare")))
    }

    /// Returns the path of an entry.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the path of the entry `name`, which is a folder. If the entry does not exist, `make` fills a new folder,
    /// which becomes the entry if `make` succeeds. `make` gets two paths: that of the new folder, and that of a folder
    /// for files that are not kept.
    pub(super) fn entry(&self, name: &str, make: impl Fn(&Path, &Path) -> Result<(), Error>) -> Result<PathBuf, Error> {
        let cannot = |error: io::Error| Error::Build(format!("cannot write to `{}`: {error}", self.0.display()));
        let entry = self.path(name);
        if entry.is_dir() {
            return Ok(entry);
        }
        fs::create_dir_all(&self.0).map_err(cannot)?;
        // Only the holder of the lock makes entries. So if this process finds unfinished folders while it holds the
        // lock, no other process uses them.
        let lock = File::create(self.path("lock")).map_err(cannot)?;
        if lock.try_lock().is_err() {
            say("compare: waiting for another `compare` that downloads");
            lock.lock().map_err(cannot)?;
        }
        if entry.is_dir() {
            return Ok(entry);
        }
        remove_left_over(&self.0).map_err(cannot)?;
        let folder = TemporaryFolder::new_in(&self.0).map_err(cannot)?;
        let [kept, dropped] = ["kept", "dropped"].map(|name| folder.path().join(name));
        for folder in [&kept, &dropped] {
            fs::create_dir(folder).map_err(cannot)?;
        }
        make(&kept, &dropped)?;
        fs::rename(kept, &entry).map_err(cannot)?;
        Ok(entry)
    }
}

/// Runs a tool, whose messages go to standard error. Returns its output.
///
/// # Errors
///
/// If the tool is missing or fails. The message consists of `what`, the reason of the failure, and `advice`.
pub(super) fn tool(words: &[&str], folder: &Path, what: &str, advice: &str) -> Result<String, Error> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).stderr(Stdio::inherit());
    let failed = |why: &str| Error::Build(format!("{what}: {why}. {advice}"));
    match host_program::run(command, None) {
        Ok(ended) if ended.status.is_some_and(|status| status.success()) => Ok(ended.output),
        Ok(_) => Err(failed(&format!("`{}` failed; see its output above", words.join(" ")))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(failed(&format!("there is no `{}`", words[0]))),
        Err(error) => Err(failed(&format!("`{}` cannot be run: {error}", words[0]))),
    }
}

/// Returns all files in a folder and its subfolders. Symbolic links are left out.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { iter::once(path).collect() };
    entries.flatten().filter(|entry| !entry.path().is_symlink()).flat_map(|entry| below(entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_made_once_and_kept_only_if_it_is_complete() {
        let parent = tempfile::tempdir().expect("a directory");
        let cache = Cache(parent.path().join("cache"));
        let failed = cache.entry("go", |kept, _| {
            fs::write(kept.join("half"), "").expect("written");
            Err(Error::Build("offline".to_owned()))
        });
        assert_eq!(failed, Err(Error::Build("offline".to_owned())));
        let names =
            || cache.0.read_dir().expect("a directory").flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
        assert_eq!(names(), ["lock"]);
        let made = cache.entry("go", |kept, dropped| {
            fs::write(kept.join("whole"), "").expect("written");
            fs::write(dropped.join("package"), "").expect("written");
            Ok(())
        });
        let made = made.expect("an entry");
        assert!(made.join("whole").is_file());
        assert_eq!(names().len(), 2, "{:?}", names());
        assert_eq!(cache.entry("go", |_, _| panic!("it is there")), Ok(made));
    }

    #[test]
    fn missing_tool_is_named_with_the_advice() {
        let error = tool(&["no-such-tool", "-x"], Path::new("/"), "cannot get Go", "Install it").expect_err("missing");
        assert_eq!(error.to_string(), "cannot get Go: there is no `no-such-tool`. Install it");
        let error = tool(&["false"], Path::new("/"), "cannot get Go", "Install it").expect_err("fails");
        assert!(error.to_string().contains("`false` failed"), "{error}");
    }
}
