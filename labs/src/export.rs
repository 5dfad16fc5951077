//! The repository with which a class works on a lab: this checkout without its history, and without the solutions of that lab
//! and of the labs after it.
//!
//! The hole of the lab is open. The labs before it are due already, so their solutions are there. The labs after it have
//! *stand-ins* (`stand_in.rs`): simpler code, with which the checks of all earlier labs pass. A lab without such a file is not
//! needed by earlier labs, and its starter stands in.

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::git;
use crate::lab::Lab;

/// Files that quote solutions, and that no build needs.
const QUOTES: &str = "gmp-sched/tests/mutants/list";

/// Makes the repository for `lab` in `folder`, of the workspace at `root`.
pub(crate) fn export(labs: &[Lab], lab: &Lab, root: &Path, folder: &Path) -> Result<()> {
    if !lab.is_exported {
        let reason = "needs a scheduler without holes, so a class works on it in this repository";
        return Err(Error::new(format!("lab {} {reason}", lab.number)));
    }
    let is_used = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(Error::file("read", folder, &error)),
    };
    if is_used {
        return Err(Error::new(format!("{} is not empty", folder.display())));
    }
    for lab in labs {
        lab.solution(root)?;
    }
    for path in git::files(root)? {
        let (from, to) = (root.join(&path), folder.join(&path));
        let place = to.parent().expect("a file is in a folder");
        fs::create_dir_all(place).map_err(|error| Error::file("make", place, &error))?;
        fs::copy(&from, &to).map_err(|error| Error::file("copy", &from, &error))?;
    }
    remove_solutions(labs, lab, folder)?;
    git::init(folder, &format!("Begin with lab {}: {}", lab.number, lab.title))
}

/// Removes the solutions of `lab` and of the labs after it from the copy of the workspace at `copy`.
pub(crate) fn remove_solutions(labs: &[Lab], lab: &Lab, copy: &Path) -> Result<()> {
    for other in labs {
        let folder = copy.join("labs").join(other.folder.file_name().unwrap_or_default());
        remove(&folder.join("wrong"))?;
        match other.number.cmp(&lab.number) {
            Ordering::Less => {}
            Ordering::Equal => other.starter()?.fill(copy, &other.holes)?,
            Ordering::Greater => {
                other.stand_in()?.fill(copy, &other.holes)?;
                // The file stays: its text is in the holes anyway, and `status` needs the file to distinguish this text from
                // what a student has written.
                continue;
            }
        }
        remove(&folder.join("stand_in.rs"))?;
    }
    remove(&copy.join(QUOTES))
}

/// Removes a file, or a folder with all that is in it, if it exists.
fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::export;
    use crate::git;
    use crate::lab::Lab;

    /// The lines that are in no hole. (The book's anchors count as holes.)
    fn outside_of_anchors(text: &str) -> String {
        let mut is_inside = false;
        let mut outside = |line: &&str| {
            is_inside = (is_inside || line.contains("// ANCHOR: ")) && !line.contains("// ANCHOR_END: ");
            !is_inside
        };
        text.split_inclusive('\n').filter(&mut outside).collect()
    }

    /// What a git command prints in `folder`.
    fn git_prints(folder: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// A line of a solution is no secret if other code contains it, too, or if it is also in the text that replaces the
    /// solution.
    #[test]
    fn exported_repository_has_no_line_of_a_solution_that_is_not_due() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let labs = Lab::all(root).unwrap();
        let sources = git::files(root).unwrap().into_iter().filter(|path| path.contains("/src/"));
        let sources: String =
            sources.filter_map(|path| Some(outside_of_anchors(&fs::read_to_string(root.join(path)).ok()?))).collect();
        for lab in labs.iter().filter(|lab| lab.is_exported) {
            let place = tempfile::tempdir().unwrap();
            export(&labs, lab, root, place.path()).unwrap();
            assert_eq!(git_prints(place.path(), &["rev-list", "--count", "--all"]), "1\n");
            let not_due = labs.iter().filter(|other| other.number >= lab.number);
            let (mut secret, mut shown) = (String::new(), String::new());
            for other in not_due {
                secret += &other.solution(root).unwrap().to_file("");
                let filling = if other.number == lab.number { other.starter() } else { other.stand_in() };
                shown += &filling.unwrap().to_file("");
            }
            for other in labs.iter().filter(|other| other.number < lab.number) {
                shown += &other.solution(root).unwrap().to_file("");
            }
            let lines: Vec<&str> = secret.lines().map(str::trim).filter(|line| line.len() >= 16).collect();
            assert!(lines.len() > 10);
            let patterns = tempfile::NamedTempFile::new().unwrap();
            fs::write(patterns.path(), lines.join("\n")).unwrap();
            // There is no other commit, so this searches the whole repository.
            let search = ["grep", "-ohF", "-f", patterns.path().to_str().unwrap(), "HEAD"];
            let mut found: Vec<String> = git_prints(place.path(), &search).lines().map(str::to_string).collect();
            found.sort();
            found.dedup();
            found.retain(|line| !shown.contains(line) && !sources.contains(line));
            assert!(found.is_empty(), "in the repository for lab {}: {found:#?}", lab.number);
        }
    }
}
