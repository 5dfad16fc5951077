//! The pages of the book, on a phone, as `cargo book` has made them. Other tests check their sources; these tests check
//! what a browser shows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::Browser;

/// The width and height of a small phone.
const PHONE: (u32, u32) = (360, 740);

/// The properties of a page that the tests check, as an expression in JavaScript. A link is the path of a file and the name
/// of a place in this file.
const LOOK: &str = "(() => {
    const place = (address) => [decodeURIComponent(address.pathname), decodeURIComponent(address.hash.slice(1))];
    const frames = [...document.querySelectorAll('iframe')].map((frame) => frame.src);
    const links = [...document.links].map((link) => link.href).concat(frames).map((address) => new URL(address));
    // The element that contains the text of the page, and all elements around it. Each of them could have a scroll bar.
    const around = [];
    for (let at = document.querySelector('main') ?? document.body; at; at = at.parentElement) around.push(at);
    const backs = [document.body, document.documentElement].map((element) => getComputedStyle(element).backgroundColor);
    const back = backs.find((back) => back !== 'rgba(0, 0, 0, 0)').match(/[0-9]+/g);
    return {
        excess: Math.max(...around.map((element) => element.scrollWidth - element.clientWidth)),
        missing: [...document.images].filter((image) => !image.naturalWidth).map((image) => image.src),
        links: links.filter((address) => address.protocol === 'file:').map(place),
        names: [...document.querySelectorAll('[id]')].map((element) => element.id),
        isDark: Math.max(...back.slice(0, 3)) < 128,
    };
})()";

/// How many colours the canvas of a timeline has, after it was drawn.
const COLOURS: &str = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => {
    const { width, height } = timeline.canvas;
    return new Set(new Uint32Array(timeline.context.getImageData(0, 0, width, height).data.buffer)).size;
})";

/// Finds the pages with text in `folder` and in the folders there. Source files (`tree`), timelines, and what mdBook adds
/// are left out.
fn chapters(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name != "tree" && name != "timelines" {
            chapters(&path, found)?;
        } else if path.extension().is_some_and(|kind| kind == "html") && name != "404.html" && name != "toc.html" {
            found.push(path);
        }
    }
    Ok(())
}

/// Every page fits the width of a phone, has the theme that its reader prefers, shows its pictures, and links only to places
/// that exist. No page prints an error on the console, and every timeline draws something.
pub(crate) fn pages(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/book/html");
    let book = book.canonicalize().map_err(|error| format!("there is no book: run cargo book ({error})"))?;
    let mut pages = Vec::new();
    chapters(&book, &mut pages)?;
    let timelines: BTreeSet<PathBuf> =
        fs::read_dir(book.join("timelines"))?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    assert!(pages.len() > 40 && timelines.len() > 5, "{} pages, {} timelines", pages.len(), timelines.len());
    browser.resize(PHONE)?;
    browser.prefer(theme)?;
    let (mut wrong, mut names, mut links) = (Vec::new(), BTreeMap::new(), Vec::new());
    for page in pages.iter().chain(&timelines) {
        let title = page.strip_prefix(&book).unwrap_or(page).display();
        browser.show(page)?;
        let seen = browser.evaluate(LOOK).map_err(|failure| format!("{title}: {failure:?}"))?;
        if seen["excess"] != 0 {
            wrong.push(format!("{title} is {} pixels wider than a phone", seen["excess"]));
        }
        if seen["isDark"] != (theme == "dark") {
            wrong.push(format!("{title} is not {theme}"));
        }
        if timelines.contains(page) {
            let colours = browser.evaluate(COLOURS)?;
            if colours.as_u64().is_none_or(|count| count < 4) {
                wrong.push(format!("{title} draws {colours} colours"));
            }
        }
        wrong.extend(list(&seen["missing"]).map(|image| format!("{title} has no picture {image}")));
        wrong.extend(browser.complaints().iter().map(|complaint| format!("{title}: {complaint}")));
        links.extend(list(&seen["links"]).map(|link| (title.to_string(), text(&link[0]), text(&link[1]))));
        let inside = list(&seen["names"]).map(text).collect::<BTreeSet<_>>();
        names.insert(page.clone(), inside);
    }
    assert!(links.len() > 1000, "{} links", links.len());
    for (title, path, place) in links {
        let path = Path::new(&path);
        let is_inside = |names: &BTreeSet<String>| place.is_empty() || names.contains(&place);
        if !path.exists() || (!timelines.contains(path) && !names.get(path).is_none_or(is_inside)) {
            wrong.push(format!("{title} has a dead link: {} {place}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn list(values: &Value) -> impl Iterator<Item = &Value> {
    values.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}
