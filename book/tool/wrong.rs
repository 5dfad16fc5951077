//! Grading the wrong solutions of the labs, which the chapters show. A wrong solution has only the holes in which it is
//! wrong; a grader wants all of them, so the others come from the tree.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::chapters::read;
use crate::error::{Error, Result};
use crate::include::part;

/// Prints what `cargo lab grade` says about the wrong solution `name` of the lab in the folder `lab`: which checks
/// fail, and the message of the first one.
pub(crate) fn grade(root: &Path, lab: &str, name: &str) -> Result<()> {
    let folder = Path::new("labs").join(lab);
    let wrong = read(root, &folder.join(format!("wrong/{name}.rs")))?;
    let mut solution = format!("//! {name}\n");
    for (file, hole) in holes(&read(root, &folder.join("lab.toml"))?) {
        let text = match part(&wrong, &hole) {
            Some(text) => text,
            None => part(&read(root, Path::new(&file))?, &hole)
                .ok_or_else(|| Error::new(format!("{file} has no hole `{hole}`")))?,
        };
        solution += &format!("\n// ANCHOR: {hole}\n{text}// ANCHOR_END: {hole}\n");
    }
    let file = root.join("target/book").join(format!("{name}.rs"));
    fs::create_dir_all(root.join("target/book")).map_err(|error| Error::file("make", &file, &error))?;
    fs::write(&file, solution).map_err(|error| Error::file("write", &file, &error))?;
    let number = lab.split('-').next().unwrap_or_default();
    let output = Command::new("cargo").args(["lab", "grade", number]).arg(&file).current_dir(root).output();
    let output = output.map_err(|error| Error::new(format!("cannot run cargo: {error}")))?;
    if output.stdout.is_empty() {
        return Err(Error::new(String::from_utf8_lossy(&output.stderr)));
    }
    print!("{}", shortened(&String::from_utf8_lossy(&output.stdout)));
    Ok(())
}

/// Returns the grade without the indented lines, which have messages, except for the first one.
fn shortened(grade: &str) -> String {
    let mut is_first = true;
    let is_shown = |line: &&str| !line.starts_with(' ') || std::mem::take(&mut is_first);
    grade.split_inclusive('\n').filter(is_shown).collect()
}

/// Returns file and name of each hole in the text of a `lab.toml`.
fn holes(lab: &str) -> Vec<(String, String)> {
    let holes = lab.split("[[").filter_map(|table| table.strip_prefix("hole]]"));
    let value = |table: &str, key: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='))?;
        Some(line.trim().trim_matches('"').to_string())
    };
    holes.filter_map(|table| Some((value(table, "file")?, value(table, "name")?))).collect()
}

#[cfg(test)]
mod tests {
    use super::{holes, shortened};

    #[test]
    fn one_message_is_shown() {
        let grade = "Lab\n\nok      1\nFAILED  2\n    one\n    See: two\nFAILED  3\n    three\n";
        assert_eq!(shortened(grade), "Lab\n\nok      1\nFAILED  2\n    one\nFAILED  3\n");
    }

    #[test]
    fn holes_have_a_file_and_a_name() {
        let text = "title = \"a\"\n[[hole]]\nfile = \"b.rs\"\nname = \"c\"\n\n[[check]]\nname = \"d\"\n";
        assert_eq!(holes(text), [("b.rs".to_string(), "c".to_string())]);
    }
}
