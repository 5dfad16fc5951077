//! What the book has besides chapters: pages with source files, and the figures of timelines.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::chapters::{address, read};
use crate::error::{Error, Result};

/// Whether the file at `path` is copied into the book, because a browser shows it as it is.
pub(crate) fn is_copied(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["html", "png", "svg"].iter().any(|shown| extension == *shown))
}

/// Returns where in the book the file or folder at `path` is.
pub(crate) fn place(path: &Path) -> PathBuf {
    let place = Path::new("tree").join(path);
    if is_copied(path) {
        place
    } else if path.extension().is_some_and(|extension| extension == "md") {
        // mdBook replaces `.md` with `.html` in all links.
        place.with_extension("html")
    } else {
        place.with_file_name(format!("{}.html", path.file_name().unwrap_or_default().to_string_lossy()))
    }
}

/// Returns a page with the text of the file at `path`, or with the names of the files in that folder.
pub(crate) fn page(root: &Path, path: &Path) -> Result<String> {
    let text = if root.join(path).is_dir() { names(root, path)? } else { read(root, path)? };
    let home = address(&place(path), Path::new("index.html"));
    let name = path.display();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{name}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<style>\n\
         :root {{ color-scheme: light dark; font: 14px/1.4 monospace; }}\n\
         main {{ overflow-x: auto; }} pre {{ margin: 0; }}\n\
         a.line {{ display: inline-block; width: 4em; color: inherit; opacity: 0.5; text-decoration: none; }}\n\
         </style>\n<p><a href=\"{home}\">The book</a> · {name}</p>\n<main>\n"
    );
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(page, "<pre id=\"L{number}\"><a class=\"line\" href=\"#L{number}\">{number}</a>{line}</pre>");
    }
    page += "</main>\n";
    Ok(page)
}

fn names(root: &Path, path: &Path) -> Result<String> {
    let wrong = |error| Error::file("read", path, &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(path)).map_err(wrong)? {
        names.push(entry.map_err(wrong)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names.join("\n"))
}

/// Returns the figure with the timeline of the run `name`.
pub(crate) fn figure(name: &str, shows: &str) -> String {
    format!(
        "<figure class=\"timeline\">\n\
         <iframe src=\"timelines/{name}.html\" title=\"Timeline: {shows}\" loading=\"lazy\"></iframe>\n\
         <figcaption>The timeline of <code>cargo book run {name}</code>: {shows}. \
         <a href=\"timelines/{name}.html\">In a window of its own</a></figcaption>\n</figure>\n"
    )
}
