//! The pages in `examples/traces` have the current style and scripts.

use std::fs;
use std::path::Path;

use timeline::{Trace, page};

/// Returns what surrounds the events in a page, without its title.
fn frame(page: &str) -> (&str, &str) {
    let (_, rest) = page.split_once("</title>").expect("a title");
    let (before, rest) = rest.split_once("const DATA = ").expect("the events");
    let (_, after) = rest.split_once("\"};\n").expect("the end of the events");
    (before, after)
}

#[test]
fn example_pages_are_made_by_the_current_page() {
    let mut page = Vec::new();
    page::write(&Trace::default(), "", &mut page).expect("memory");
    let page = String::from_utf8(page).expect("a text");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces");
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let pages: Vec<_> = files.filter(|file| file.extension().is_some_and(|extension| extension == "html")).collect();
    assert_eq!(pages.len(), 4);
    for file in pages {
        let example = fs::read_to_string(&file).expect("a page");
        assert!(
            frame(&example) == frame(&page),
            "{} is old: `cargo run -p timeline --example mistakes -- examples/traces` makes it again",
            file.display()
        );
    }
}
