//! Changes outside of the holes. The checks in the student's checkout see them, but the file that is handed in does not
//! contain them. So code that passes all checks here may not even compile for the grader.

use std::fs;
use std::path::Path;

use crate::error::Result;
use crate::filling::without;
use crate::git;
use crate::lab::Lab;

/// Returns a warning that names the files with changes outside of the holes since the beginning of `lab`. Returns `None` if
/// there are none, or if `lab` was not begun on this branch.
pub(crate) fn warning(labs: &[Lab], lab: &Lab, root: &Path) -> Result<Option<String>> {
    let Some(start) = git::beginning(root, lab.number)? else { return Ok(None) };
    let mut files = Vec::new();
    for file in git::changed_sources(root, &start)? {
        let rest = |text: String| {
            let holes = labs.iter().flat_map(|lab| &lab.holes).filter(|hole| hole.file == file);
            holes.fold(text, |text, hole| without(&text, &hole.name))
        };
        let now = fs::read_to_string(root.join(&file)).ok().map(rest);
        if now.is_none() || now != git::text_at(root, &start, &file)?.map(rest) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Ok(None);
    }
    let list: String = files.iter().map(|file| format!("  {file}\n")).collect();
    Ok(Some(format!(
        "Outside of your parts, there are changes in\n{list}They are not in the file that `submit` writes, so a grader has these \
         files without them. `git diff {start} -- {}` shows the changes.\n\
         (A name that needs a `use` can be written with its path: `core::cmp::min`.)",
        files.join(" ")
    )))
}
