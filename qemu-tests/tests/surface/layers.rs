//! The kernel's source is a stack of layers, with one folder for each. This test reads the list of layers from the
//! picture in `ARCHITECTURE.md`. A module may name only modules of its own layer and of lower layers, without
//! exception.

use std::collections::BTreeSet;

use crate::{KERNEL, read};

/// Returns the layers, the lowest first.
fn layers() -> Vec<String> {
    let text = read("ARCHITECTURE.md");
    let (_, section) =
        text.split_once("`kernel/src` is a stack of layers").expect("a section about the kernel's layers");
    let (_, picture) = section.split_once("```text\n").expect("a picture in it");
    let (picture, _) = picture.split_once("```").expect("its end");
    let name = |line: &str| line.split_whitespace().next().expect("a line begins with a layer").to_string();
    picture.lines().rev().map(name).collect()
}

fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn picture_shows_every_folder_of_the_kernel() {
    let shown: BTreeSet<_> = layers().into_iter().collect();
    let first = |module: &String| module.split("::").next().unwrap_or_default().to_string();
    let there: BTreeSet<_> = KERNEL.paths.keys().map(first).filter(|module| module != "lib").collect();
    assert_eq!(shown, there);
}

#[test]
fn layer_of_the_kernel_names_no_layer_above_it() {
    let layers = layers();
    let floor = |path: &str| layers.iter().position(|layer| is_within(path, layer));
    let mut found = Vec::new();
    for (module, paths) in &KERNEL.paths {
        let Some(own) = floor(module) else { continue };
        let up = paths.iter().filter(|path| floor(path).is_some_and(|floor| floor > own));
        found.extend(up.map(|path| format!("{module} -> {path}")));
    }
    assert!(found.is_empty(), "paths that run up:\n{}", found.join("\n"));
}
