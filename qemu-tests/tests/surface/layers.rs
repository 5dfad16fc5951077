//! The kernel's source is a stack of layers, a folder each: the picture in `ARCHITECTURE.md`, which is read here. A module names
//! modules of its own layer and of those below it. Where that is not so, it is listed, with the reason.

use std::collections::BTreeSet;

use crate::{KERNEL, read};

/// What runs up: from a module, a layer, or anything (`*`); to a module; why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "sched",
        "diagnostics",
        "the watchdog hears what each CPU runs; the scheduler ends the machine; panics that end one G",
    ),
    ("sched::platform", "program", "the main G runs the program"),
];

/// The layers, from the ground up.
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
    let mut unused: BTreeSet<_> = EXCEPTIONS.iter().collect();
    let mut found = Vec::new();
    for (module, paths) in &KERNEL.paths {
        let Some(own) = floor(module) else { continue };
        for path in paths.iter().filter(|path| floor(path).is_some_and(|floor| floor > own)) {
            match EXCEPTIONS
                .iter()
                .find(|(from, to, _)| (*from == "*" || is_within(module, from)) && is_within(path, to))
            {
                Some(exception) => _ = unused.remove(exception),
                None => found.push(format!("{module} -> {path}")),
            }
        }
    }
    assert!(found.is_empty(), "paths that run up:\n{}", found.join("\n"));
    assert!(unused.is_empty(), "exceptions that are not needed any more: {unused:#?}");
}
