//! The chapters, as `book/src/SUMMARY.md` lists them. A chapter is a file in `book/src`, or a document elsewhere in the
//! tree, such as a page of the manual.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::links;

/// The path of the table of contents, relative to the root of the workspace.
pub(crate) const SUMMARY: &str = "book/src/SUMMARY.md";

/// The paths of all chapters, relative to the root of the workspace.
#[derive(Debug)]
pub(crate) struct Chapters(BTreeSet<PathBuf>);

impl Chapters {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let text = read(root, Path::new(SUMMARY))?;
        let mut chapters = BTreeSet::new();
        for link in links::of(&text) {
            let path = resolve(Path::new(SUMMARY), link.path());
            if !root.join(&path).is_file() {
                return Err(Error::new(format!("{SUMMARY}: there is no {}", link.path())));
            }
            if !chapters.insert(path) {
                return Err(Error::new(format!("{SUMMARY}: {} is listed twice", link.path())));
            }
        }
        Ok(Self(chapters))
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.0.contains(path)
    }
}

/// Reads the file at `path`, which is relative to `root`.
pub(crate) fn read(root: &Path, path: &Path) -> Result<String> {
    fs::read_to_string(root.join(path)).map_err(|error| Error::file("read", path, &error))
}

/// Returns the path to which a link with this address leads in the file `from`. Both paths are relative to the root.
pub(crate) fn resolve(from: &Path, address: &str) -> PathBuf {
    let mut path = from.parent().unwrap_or(Path::new("")).to_path_buf();
    for part in Path::new(address).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Returns the path in the book of the file at `path`. Chapters of `book/src` are at the top. A `README` becomes
/// `index`, because mdBook names it so.
pub(crate) fn place(path: &Path) -> PathBuf {
    let place = path.strip_prefix("book/src").unwrap_or(path);
    if place.ends_with("README.md") { place.with_file_name("index.md") } else { place.to_path_buf() }
}

/// Returns the address of the page `to`, for a link on the page `from`. Both are paths in the book.
pub(crate) fn address(from: &Path, to: &Path) -> String {
    let from: Vec<_> = from.parent().map(|folder| folder.components().collect()).unwrap_or_default();
    let to: Vec<_> = to.components().collect();
    let same = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = from[same..].iter().map(|_| "..");
    let down = to[same..].iter().map(|part| part.as_os_str().to_str().expect("the names of files are text"));
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{address, place, resolve};

    #[test]
    fn paths_lead_from_one_page_to_another() {
        let manual = Path::new("docs/manual/timeline.md");
        assert_eq!(resolve(manual, "../../labs/README.md"), Path::new("labs/README.md"));
        assert_eq!(place(Path::new("labs/README.md")), Path::new("labs/index.md"));
        assert_eq!(place(Path::new("book/src/pick.md")), Path::new("pick.md"));
        assert_eq!(address(manual, Path::new("labs/index.md")), "../../labs/index.md");
        assert_eq!(address(manual, Path::new("docs/manual/tour.md")), "tour.md");
        assert_eq!(address(Path::new("pick.md"), manual), "docs/manual/timeline.md");
    }
}
