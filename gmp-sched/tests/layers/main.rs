//! The source is a stack of layers. A path in the code of a layer may name only that layer or a lower one.
//!
//! The test reads the lists of layers from two pictures in ARCHITECTURE.md: the layers of the crate, and those inside
//! the library. A picture has one layer per line, the lowest last. Modules in one line may name each other. If a layer
//! adds a method to a type of a lower layer, no layer below the one that adds the method may call it. Comments and code
//! for tests are not checked.
#![cfg(not(gmp_loom))]

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use source::{Source, sources};

/// The exceptions: paths that lead to a higher layer, each with its reason.
const EXCEPTIONS: &[Exception] =
    &[Exception { file: "engine/hooks.rs", names: "refinements", reason: "attaches the refinements to the textbook" }];

/// An allowed exception: `file` uses the path or the method `names`, although a higher layer defines it.
struct Exception {
    file: &'static str,
    names: &'static str,
    reason: &'static str,
}

/// The layers of the crate: the heading of their picture, and the module that contains them, the crate's root.
const CRATE: Stack = Stack { heading: "`gmp-sched/src` is a stack of layers", within: "" };
/// The layers of the library.
const LIBRARY: Stack = Stack { heading: "`gmp-sched/src/library` is a stack of layers", within: "library" };

/// Modules that are layers, one above the other.
struct Stack {
    /// The text before the picture in ARCHITECTURE.md.
    heading: &'static str,
    /// The path of the module that contains the layers.
    within: &'static str,
}

impl Stack {
    /// Returns the layer to which `path` leads; `None` if the path leads out of the stack.
    fn layer<'a>(&self, path: &'a str, separator: &str) -> Option<&'a str> {
        let path = match self.within {
            "" => path,
            within => path.strip_prefix(within)?.strip_prefix(separator)?,
        };
        path.split(separator).next().filter(|layer| *layer != "mod.rs").map(|layer| layer.trim_end_matches(".rs"))
    }
}

/// The layers of a stack: the floor of each module in the picture of that stack in ARCHITECTURE.md. The lowest floor is
/// floor 0.
struct Floors {
    stack: Stack,
    floors: BTreeMap<String, usize>,
}

impl Floors {
    /// Reads the picture. A line is a list of modules, then two spaces or more, then a description.
    fn of_the_picture(stack: Stack) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
        let text = fs::read_to_string(path).expect("ARCHITECTURE.md can be read");
        let (_, section) = text.split_once(stack.heading).expect("a section about layers");
        let (_, picture) = section.split_once("```text\n").expect("a picture in it");
        let (picture, _) = picture.split_once("```").expect("its end");
        let modules = |line: &str| -> Vec<String> {
            let (modules, _) = line.split_once("  ").expect("modules, two spaces, a description");
            modules.split(", ").map(str::to_owned).collect()
        };
        let floors = picture.lines().rev().enumerate();
        let floors = floors.flat_map(|(floor, line)| modules(line).into_iter().map(move |module| (module, floor)));
        Self { stack, floors: floors.collect() }
    }

    /// The floor of the layer to which `source` belongs; `None` if the stack does not contain `source`.
    fn of(&self, source: &Source) -> Option<usize> {
        self.floors.get(self.stack.layer(source.file(), "/")?).copied()
    }

    /// Whether `path`, in code on the floor `own`, leads to a higher layer, or to a layer that is not in the picture.
    fn runs_up(&self, path: &str, own: usize) -> bool {
        let layer = self.stack.layer(path, "::");
        layer.is_some_and(|layer| self.floors.get(layer).is_none_or(|&floor| floor > own))
    }
}

#[test]
fn pictures_show_every_module() {
    for stack in [CRATE, LIBRARY] {
        let floors = Floors::of_the_picture(stack);
        let sources = sources();
        let in_the_source: BTreeSet<_> = sources
            .iter()
            .filter_map(|source| floors.stack.layer(source.file(), "/"))
            .filter(|it| *it != "lib")
            .collect();
        let shown: BTreeSet<_> = floors.floors.keys().map(String::as_str).collect();
        assert_eq!(shown, in_the_source, "the picture in ARCHITECTURE.md, and the modules in the source");
    }
}

/// Returns the paths in the code of a layer that lead to a higher layer, or to a module that is not in the picture.
/// Each path comes with its file.
fn paths_that_run_up(sources: &[Source], floors: &Floors) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for source in sources {
        let Some(own) = floors.of(source) else { continue };
        let runs_up = |path: &&str| floors.runs_up(path, own);
        found.extend(source.paths().filter(runs_up).map(|path| (source.file().to_owned(), path.to_owned())));
    }
    found
}

/// Finds the methods that a layer adds to types of other layers, and returns each call of such a method in a layer
/// below that one, with its file. The caller depends on the higher layer, although no path in the caller's code names
/// it.
fn calls_that_run_up(sources: &[Source], floors: &Floors) -> Vec<(String, String)> {
    let mut lowest = BTreeMap::new();
    let mut types = BTreeSet::new();
    let sources: Vec<_> = sources.iter().filter_map(|it| Some((floors.of(it)?, it))).collect();
    for &(floor, source) in &sources {
        types.extend(source.types().map(|name| (floor, name)));
        for name in source.functions() {
            lowest.entry(name).and_modify(|lowest| *lowest = floor.min(*lowest)).or_insert(floor);
        }
    }
    // The code of a call shows the method's name but not its type. If a lower layer has a function of that name, the
    // call may be of that function. So a method is recorded as added by a layer only if no lower layer has a function
    // of its name.
    let mut added = BTreeMap::new();
    for &(floor, source) in &sources {
        let methods = source.methods().into_iter();
        let is_added = |&(of, method): &(&str, &str)| !types.contains(&(floor, of)) && lowest[method] == floor;
        added.extend(methods.filter(is_added).map(|(of, method)| (method, (floor, of))));
    }
    let mut found = Vec::new();
    for &(floor, source) in &sources {
        for method in source.calls() {
            if let Some((_, of)) = added.get(method).filter(|(of_floor, _)| *of_floor > floor) {
                found.push((source.file().to_owned(), format!("{of}::{method}")));
            }
        }
    }
    found
}

#[test]
fn no_path_leads_up_except_the_listed_ones() {
    let sources = sources();
    let mut found = Vec::new();
    for stack in [CRATE, LIBRARY] {
        let floors = Floors::of_the_picture(stack);
        found.extend(paths_that_run_up(&sources, &floors));
        found.extend(calls_that_run_up(&sources, &floors));
    }
    let is_meant = |exception: &Exception, (file, names): &(String, String)| {
        *file == exception.file
            && names.strip_prefix(exception.names).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let unused = EXCEPTIONS.iter().filter(|exception| !found.iter().any(|it| is_meant(exception, it)));
    let unused: Vec<_> = unused.map(|it| format!("{} names {}: {}", it.file, it.names, it.reason)).collect();
    found.retain(|it| !EXCEPTIONS.iter().any(|exception| is_meant(exception, it)));
    let found: Vec<_> = found.iter().map(|(file, names)| format!("{file} names {names}")).collect();
    assert!(found.is_empty(), "this runs up:\n{}", found.join("\n"));
    assert!(unused.is_empty(), "exceptions that are no longer needed:\n{}", unused.join("\n"));
}
