//! Checks the documents. The file to which a link leads must exist. If the text of the link is a name in backquotes and
//! the file is a source file, the file must define this name, or be the module with this name. Further tests check the
//! table, the programs and the lengths of some documents.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the documents at the root, in `docs` and its manual, in the book, and in `labs` and the folder of each lab.
fn documents() -> Vec<PathBuf> {
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let labs = root().join("labs");
    let folders = [root(), root().join("docs"), root().join("docs/manual"), root().join("book/src"), labs.clone()];
    let folders = folders.into_iter().chain(entries(&labs).into_iter().filter(|path| path.is_dir()));
    let files = folders.flat_map(|folder| entries(&folder));
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns the text and the address of each link to a file. The text may contain a line break between two words.
fn links(text: &str) -> Vec<(&str, &str)> {
    let ends = text.match_indices("](");
    let link = ends.filter_map(|(end, _)| {
        let begin = text[..end].rfind('[')?;
        let address = &text[end + 2..];
        let address = &address[..address.find(')')?];
        Some((&text[begin + 1..end], address.split('#').next()?))
    });
    link.filter(|(_, address)| !address.is_empty() && !address.starts_with("http")).collect()
}

/// Whether `source` defines something with the name `name`: a function, a type, a macro, a constant or a module.
fn defines(source: &str, name: &str) -> bool {
    let keywords = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules!"];
    keywords.iter().any(|keyword| {
        source.match_indices(&format!("{keyword} {name}")).any(|(at, found)| {
            let next = source[at + found.len()..].chars().next();
            next.is_none_or(|next| !next.is_alphanumeric() && next != '_')
        })
    })
}

#[test]
fn links_lead_to_files_that_define_the_linked_names() {
    let mut broken = Vec::new();
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for (label, address) in links(&text) {
            count += 1;
            let file = document.parent().unwrap().join(address);
            if !file.exists() {
                broken.push(format!("{}: there is no {address}", document.display()));
                continue;
            }
            let is_source = file.extension().is_some_and(|extension| extension == "rs");
            let name = label.strip_prefix('`').and_then(|label| label.strip_suffix('`'));
            if is_source && let Some(name) = name.filter(|name| !name.ends_with(".rs")) {
                let source = fs::read_to_string(&file).unwrap();
                let is_module = file.ends_with(format!("{name}.rs")) || file.ends_with(format!("{name}/mod.rs"));
                if !is_module && !defines(&source, name) {
                    broken.push(format!("{}: {address} does not define {name}", document.display()));
                }
            }
        }
    }
    assert!(count > 50, "only {count} links found");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Counts the functions and files that each path of the document links, and how often the file changes from one link to
/// the next. A table in the document has these numbers.
#[test]
fn life_of_a_g_is_as_long_as_its_table_says() {
    let text = fs::read_to_string(root().join("docs/life-of-a-g.md")).unwrap();
    for path in text.split("\n## ").skip(1) {
        let title = path.lines().next().unwrap();
        let steps: Vec<_> = links(path).into_iter().filter(|(_, address)| address.ends_with(".rs")).collect();
        let functions: HashSet<_> = steps.iter().collect();
        let files: HashSet<_> = steps.iter().map(|(_, address)| address).collect();
        let changes = steps.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        let row = format!("| {title} | {} | {} | {changes} |", functions.len(), files.len());
        assert!(text.contains(&row), "the document does not have the row {row}");
    }
}

#[test]
fn readme_shows_the_program_of_the_same_text() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let source = fs::read_to_string(root().join("programs/src/bin/squares.rs")).unwrap();
    let (_header, program) = source.split_once("\n\n").unwrap();
    assert!(readme.contains(&format!("```rust\n{program}```")), "README.md does not show squares.rs");
}

#[test]
fn guide_on_devices_shows_the_driver_of_the_entropy_device() {
    let guide = fs::read_to_string(root().join("docs/add-a-device.md")).unwrap();
    let source = fs::read_to_string(root().join("kernel/src/drivers/virtio/entropy.rs")).unwrap();
    let blocks: Vec<_> = guide.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        assert!(source.contains(block), "entropy.rs has no\n{block}");
    }
}

/// A longer page would be a reference. A reference is divided among several pages of the manual.
#[test]
fn front_page_and_pages_of_the_manual_stay_short() {
    let length = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(length(&root().join("README.md")) <= 12 * 1024);
    assert!(length(&root().join("ARCHITECTURE.md")) <= 15 * 1024);
    for page in documents().iter().filter(|page| page.parent().unwrap().ends_with("manual")) {
        assert!(length(page) <= 10 * 1024, "{} has {} bytes", page.display(), length(page));
    }
}
