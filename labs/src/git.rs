//! The branches on which students work.

use std::path::Path;
use std::process::{Command, Output};

use crate::error::{Error, Result};

fn git(root: &Path, arguments: &[&str]) -> Result<Output> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output();
    output.map_err(|error| Error::new(format!("cannot run git: {error}; labs need git, because each has a branch")))
}

/// Like [`git`], for a command that must succeed.
fn must(root: &Path, arguments: &[&str]) -> Result<()> {
    let output = git(root, arguments)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("git {} failed: {}", arguments.join(" "), message.trim())))
}

/// The name of the branch of a lab.
fn branch(lab: u32) -> String {
    format!("lab-{lab}")
}

/// Whether the branch of a lab exists.
pub(crate) fn has_begun(root: &Path, lab: u32) -> Result<bool> {
    let name = format!("refs/heads/{}", branch(lab));
    Ok(git(root, &["rev-parse", "--verify", "--quiet", &name])?.status.success())
}

/// The name of the branch of a lab, if it exists and is not the current one.
pub(crate) fn other_branch(root: &Path, lab: u32) -> Result<Option<String>> {
    let current = printed(root, &["branch", "--show-current"])?.unwrap_or_default();
    let branch = branch(lab);
    Ok(if has_begun(root, lab)? && current.trim() != branch { Some(branch) } else { None })
}

/// Makes the branch of a lab from the current commit, and goes there. Refuses if the branch exists, or if there are changes
/// that are not committed: they would come along to the new branch, and half-written code would not compile there.
pub(crate) fn begin(root: &Path, lab: u32) -> Result<()> {
    let branch = branch(lab);
    if has_begun(root, lab)? {
        return Err(Error::new(format!(
            "lab {lab} has begun before: `git switch {branch}` goes on, `cargo lab reset {lab}` begins again there"
        )));
    }
    let changed = git(root, &["status", "--porcelain", "--untracked-files=no"])?;
    if !changed.status.success() {
        let message = String::from_utf8_lossy(&changed.stderr);
        return Err(Error::new(format!("this is no git checkout, which labs need: {}", message.trim())));
    }
    if !changed.stdout.is_empty() {
        let list = String::from_utf8_lossy(&changed.stdout);
        return Err(Error::new(format!(
            "these changes would come along:\n{}\n\
             `git commit --all --message unfinished` keeps them on this branch. Lab {lab} then begins with them, or, after \
             `git switch main`, without them",
            list.trim_end()
        )));
    }
    must(root, &["switch", "--quiet", "--create", &branch])
}

/// The paths, from `root`, of the files that git knows.
pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
    let output = git(root, &["ls-files", "-z"])?;
    let files = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(files.split_terminator('\0').map(str::to_string).collect())
}

/// What a git command prints, or `None` if it fails.
fn printed(root: &Path, arguments: &[&str]) -> Result<Option<String>> {
    let output = git(root, arguments)?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The commit, on the current branch, with which a lab began: that of `start`, or that of an exported repository. `None` if
/// there is none.
pub(crate) fn beginning(root: &Path, lab: u32) -> Result<Option<String>> {
    let [start, export] = [format!("--grep=^Start lab {lab}$"), format!("--grep=^Begin with lab {lab}:")];
    let commit = printed(root, &["log", "-1", "--format=%h", &start, &export])?.unwrap_or_default();
    Ok(Some(commit.trim().to_string()).filter(|commit| !commit.is_empty()))
}

/// The paths, from `root`, of the sources that differ from those in `commit`.
pub(crate) fn changed_sources(root: &Path, commit: &str) -> Result<Vec<String>> {
    let sources = ["*.rs", "*.toml", ":(exclude,glob)lab-*.rs"];
    let paths = printed(root, &[&["diff", "--name-only", "--no-renames", "-z", commit, "--"], &sources[..]].concat())?;
    Ok(paths.unwrap_or_default().split_terminator('\0').map(str::to_string).collect())
}

/// The text of a file in `commit`, or `None` if it has no such file.
pub(crate) fn text_at(root: &Path, commit: &str, path: &str) -> Result<Option<String>> {
    printed(root, &["show", &format!("{commit}:{path}")])
}

/// Makes `folder` a checkout with one commit, which contains all its files.
pub(crate) fn init(folder: &Path, message: &str) -> Result<()> {
    must(folder, &["init", "--quiet", "--initial-branch=main"])?;
    // `--force` also adds files that git is to ignore: the checkout from which they were copied has them in git.
    must(folder, &["add", "--all", "--force"])?;
    commit(folder, &[], message)
}

/// Commits `files`, even if they have not changed. If `files` is empty, commits what was added.
pub(crate) fn commit(root: &Path, files: &[&str], message: &str) -> Result<()> {
    // The author is this command, because the user's git may have no name yet, or may want to sign commits.
    let options = ["-c", "user.name=cargo lab", "-c", "user.email=lab@localhost", "-c", "commit.gpgsign=false"];
    must(
        root,
        &[&options[..], &["commit", "--quiet", "--no-verify", "--allow-empty", "-m", message, "--"], files].concat(),
    )
}
