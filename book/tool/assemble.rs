//! Makes the folder that mdBook reads: the chapters with the code that they include, the timelines of the runs, and a
//! page for each source file that a chapter links to. A link to a file that does not exist is an error, and so is a
//! link to a heading that a chapter does not have.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::chapters::{Chapters, SUMMARY, address, place, read, resolve};
use crate::error::{Error, Result};
use crate::experiments::Experiment;
use crate::{include, links, pages};

/// The book in memory.
#[derive(Debug, Default)]
struct Book {
    /// For each chapter and the table of contents: its path in the book, and its text.
    texts: Vec<(PathBuf, String)>,
    /// The paths in the tree of the files that chapters link to and that are not chapters.
    linked: BTreeSet<PathBuf>,
    /// The names of the runs whose timelines are shown.
    timelines: BTreeSet<String>,
}

/// Replaces `folder` with the folder that mdBook reads.
pub(crate) fn assemble(root: &Path, folder: &Path) -> Result<()> {
    let book = Book::of(root)?;
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::file("remove", folder, &error)),
        _ => {}
    }
    for (path, text) in &book.texts {
        write(&folder.join(path), text.as_bytes())?;
    }
    for path in &book.linked {
        let target = folder.join(pages::place(path));
        if pages::is_copied(path) {
            let content = fs::read(root.join(path)).map_err(|error| Error::file("read", path, &error))?;
            write(&target, &content)?;
        } else {
            write(&target, pages::page(root, path)?.as_bytes())?;
        }
    }
    for name in &book.timelines {
        let (_, trace) = Experiment::find(name)?.perform();
        let trace = trace.ok_or_else(|| Error::new(format!("the run {name} has no timeline")))?;
        let mut page = Vec::new();
        timeline::page::write(&trace, name, &mut page).expect("writing to memory does not fail");
        write(&folder.join(format!("timelines/{name}.html")), &page)?;
    }
    Ok(())
}

impl Book {
    /// Reads all chapters of the workspace at `root`, and checks their includes and links.
    fn of(root: &Path) -> Result<Self> {
        let chapters = Chapters::read(root)?;
        let mut book = Self::default();
        for path in chapters.paths().chain([Path::new(SUMMARY)]) {
            let text = include::expand(root, path, &read(root, path)?)?;
            let text = book.show_timelines(path, &text)?;
            let mut dead = Vec::new();
            let text = links::replace(&text, |link| {
                let target = resolve(path, link.path());
                let page = if chapters.contains(&target) {
                    let heading = link.fragment().trim_start_matches('#');
                    let is_there = |text: String| heading.is_empty() || links::has_heading(&text, heading);
                    if !read(root, &target).is_ok_and(is_there) {
                        dead.push(link.address.to_string());
                    }
                    place(&target)
                } else if link.path().starts_with("timelines/") {
                    return None;
                } else if root.join(&target).exists() {
                    book.linked.insert(target.clone());
                    pages::place(&target)
                } else {
                    dead.push(link.address.to_string());
                    return None;
                };
                Some(address(&place(path), &page) + link.fragment())
            });
            if !dead.is_empty() {
                return Err(Error::new(format!("{}: dead links: {}", path.display(), dead.join(", "))));
            }
            book.texts.push((place(path), text));
        }
        Ok(book)
    }

    /// Puts the timeline of a run in place of each line `<!-- timeline: NAME -->`.
    fn show_timelines(&mut self, path: &Path, text: &str) -> Result<String> {
        let mut result = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let name = line.trim().strip_prefix("<!-- timeline: ").and_then(|rest| rest.strip_suffix(" -->"));
            let Some(name) = name else {
                result.push_str(line);
                continue;
            };
            let run = Experiment::find(name).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
            self.timelines.insert(name.to_string());
            result.push_str(&pages::figure(name, run.shows));
        }
        Ok(result)
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    let folder = path.parent().expect("the path of a file has a folder");
    fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, &error))?;
    fs::write(path, content).map_err(|error| Error::file("write", path, &error))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::Book;
    use crate::chapters::Chapters;
    use crate::root;

    /// The documents in `folder`, as paths from the root.
    fn documents(folder: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "md"));
        names.map(|name| Path::new(folder).join(name)).collect()
    }

    #[test]
    fn includes_links_and_timelines_lead_to_what_exists() {
        let book = Book::of(root()).unwrap_or_else(|error| panic!("{error}"));
        assert!(book.texts.len() > 20 && book.linked.len() > 50 && !book.timelines.is_empty());
    }

    #[test]
    fn every_document_is_a_chapter() {
        let chapters = Chapters::read(root()).unwrap();
        let labs = fs::read_dir(root().join("labs")).unwrap().map(|entry| entry.unwrap().file_name());
        let labs = labs.map(|lab| format!("labs/{}", lab.display())).filter(|lab| root().join(lab).is_dir());
        let folders = ["book/src", "docs", "docs/manual", "labs"].map(str::to_string).into_iter().chain(labs);
        let missing: Vec<_> = folders
            .flat_map(|folder| documents(&folder))
            .filter(|path| !path.ends_with("SUMMARY.md") && !chapters.contains(path))
            .collect();
        assert!(missing.is_empty(), "not in SUMMARY.md: {missing:?}");
    }

    #[test]
    fn chapters_of_the_course_are_short() {
        for path in documents("book/src") {
            let length = fs::metadata(root().join(&path)).unwrap().len();
            assert!(length <= 8 * 1024, "{} has {length} bytes", path.display());
        }
    }
}
