//! Including code and documents in a chapter, by a line of its own:
//!
//! - `{{#include FILE}}` and `{{#include FILE:ANCHOR}}`, as in mdBook. An anchor is a part of a source file between the
//!   comments `ANCHOR: name` and `ANCHOR_END: name`; the holes of the labs are such parts, too.
//! - `{{#include FILE:fn NAME}}`, also with another keyword, such as `trait`: a whole item, without its documentation.
//!   So a file needs no comments for the book.

use std::path::{Path, PathBuf};

use crate::chapters::{address, read, resolve};
use crate::error::{Error, Result};

const BEGIN: &str = "{{#include ";
const END: &str = "}}";

/// Returns the text of the chapter at `path` with all that it includes. Below each block of code is a link to its file.
pub(crate) fn expand(root: &Path, path: &Path, text: &str) -> Result<String> {
    let mut result = String::with_capacity(text.len());
    let mut fence: Option<Option<PathBuf>> = None;
    for line in text.split_inclusive('\n') {
        let included = line.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
        if let Some(what) = included {
            let (file, part) = include(root, path, what)?;
            match &mut fence {
                Some(origin) => {
                    result.push_str(&part);
                    *origin = Some(file);
                }
                None => result.push_str(&lower_headings(&part)),
            }
            continue;
        }
        result.push_str(line);
        if line.starts_with("```") {
            fence = match fence {
                None => Some(None),
                Some(origin) => {
                    if let Some(file) = origin {
                        result.push_str(&caption(path, &file));
                    }
                    None
                }
            };
        }
    }
    Ok(result)
}

/// Returns the file that `what` names in the chapter at `path`, and the wanted part of it.
fn include(root: &Path, path: &Path, what: &str) -> Result<(PathBuf, String)> {
    let (address, anchor) = what.split_once(':').map_or((what, None), |(address, anchor)| (address, Some(anchor)));
    let file = resolve(path, address);
    let text = read(root, &file).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    let part = match anchor {
        None => text,
        Some(anchor) => if anchor.contains(' ') { item(&text, anchor) } else { part(&text, anchor) }
            .ok_or_else(|| Error::new(format!("{}: no `{anchor}` in {address}", path.display())))?,
    };
    Ok((file, part))
}

/// Returns what stands between the markers of `anchor`, without other markers, and without the indentation that all
/// lines have.
fn part(text: &str, anchor: &str) -> Option<String> {
    let name = |line: &str, marker: &str| line.trim().strip_prefix("// ")?.strip_prefix(marker).map(str::to_string);
    let mut lines = text.lines().skip_while(|line| name(line, "ANCHOR: ").as_deref() != Some(anchor)).skip(1);
    let mut part = Vec::new();
    loop {
        let line = lines.next()?;
        if name(line, "ANCHOR_END: ").as_deref() == Some(anchor) {
            break;
        }
        if name(line, "ANCHOR").is_none() {
            part.push(line);
        }
    }
    Some(without_indentation(&part))
}

/// Returns the item that `heading` begins, for example `fn park_with`.
fn item(text: &str, heading: &str) -> Option<String> {
    let begins = |line: &&str| {
        line.find(heading).is_some_and(|at| {
            let (before, after) = (&line[..at], &line[at + heading.len()..]);
            let is_start = ["", "pub ", "pub(crate) ", "pub(super) ", "unsafe ", "pub unsafe ", "pub(crate) unsafe "];
            is_start.contains(&before.trim_start())
                && !after.starts_with(|next: char| next.is_alphanumeric() || next == '_')
        })
    };
    let mut lines = text.lines().skip_while(|line| !begins(line)).peekable();
    let indentation = indentation(lines.peek()?);
    let mut item = Vec::new();
    for line in lines {
        // Markers are comments for the labs and the book, and say nothing to the reader.
        if !line.trim().starts_with("// ANCHOR") {
            item.push(line);
        }
        if self::indentation(line) == indentation && (line.trim_start() == "}" || line.ends_with(';')) {
            return Some(without_indentation(&item));
        }
    }
    None
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Removes the indentation that all lines have.
fn without_indentation(lines: &[&str]) -> String {
    let shared = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| indentation(line)).min().unwrap_or(0);
    lines.iter().map(|line| format!("{}\n", line.get(shared..).unwrap_or_default())).collect()
}

/// Lowers each heading by one level, because the document becomes a part of a chapter.
fn lower_headings(text: &str) -> String {
    let mut is_code = false;
    let lower = |line: &str| {
        is_code ^= line.trim_start().starts_with("```");
        if line.starts_with('#') && !is_code { format!("#{line}") } else { line.to_string() }
    };
    text.split_inclusive('\n').map(lower).collect()
}

fn caption(chapter: &Path, file: &Path) -> String {
    // The link is replaced later, as all links are, so it is relative to the place of the chapter in the tree.
    let link = address(chapter, file);
    format!("\n<div class=\"origin\">\n\n[{}]({link})\n\n</div>\n", file.display())
}

#[cfg(test)]
mod tests {
    use super::{item, lower_headings, part};

    const TEXT: &str = "a\n    // ANCHOR: one\n    b\n\n    // ANCHOR: two\n        c\n    // ANCHOR_END: two\n\
                        \x20   // ANCHOR_END: one\n";

    #[test]
    fn anchored_part_has_neither_markers_nor_indentation() {
        assert_eq!(part(TEXT, "one").unwrap(), "b\n\n    c\n");
        assert_eq!(part(TEXT, "two").unwrap(), "c\n");
        assert_eq!(part(TEXT, "three"), None);
        assert_eq!(part("// ANCHOR: one\nwithout an end\n", "one"), None);
    }

    #[test]
    fn item_is_found_by_keyword_and_name() {
        let other = "    /// fn two\n    pub(crate) fn two_more() {\n    }\n";
        let text = format!("{other}    pub(crate) fn two() {{\n        if x {{\n        }}\n    }}\n    y\n");
        assert_eq!(item(&text, "fn two").unwrap(), "pub(crate) fn two() {\n    if x {\n    }\n}\n");
        assert_eq!(item("const ONE: u32 = 1;\n", "const ONE").unwrap(), "const ONE: u32 = 1;\n");
        assert_eq!(item(&text, "fn three"), None);
    }

    #[test]
    fn headings_of_an_included_document_are_lowered() {
        assert_eq!(lower_headings("# One\n```sh\n# no heading\n```\n"), "## One\n```sh\n# no heading\n```\n");
    }
}
