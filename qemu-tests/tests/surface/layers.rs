//! The sources of `gmp-sched`, of its library and of the kernel are stacks of layers. A path in the code of a layer may
//! name only that layer or a lower one.
//!
//! The test reads the lists of layers from the pictures in ARCHITECTURE.md. A picture has one layer per line, the lowest
//! last. Modules in one line may name each other. If a layer adds a method to a type of a lower layer, no layer below the
//! one that adds the method may call it. Code for tests is not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::source::{Crate, Half};
use crate::{KERNEL, in_project, read};

/// All code of the scheduler, with that for loom and for ThreadSanitizer.
static WHOLE_SCHEDULER: LazyLock<Crate> =
    LazyLock::new(|| Crate::read(&in_project("gmp-sched/src/lib.rs"), Half::Both));

/// The exceptions: the module that names a higher layer, the layer, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("engine::hooks", "refinements", "attaches the refinements to the textbook")];

/// Modules that are layers, one above the other.
struct Stack {
    of: &'static Crate,
    /// The path of the module that contains the layers, with `::` behind it; empty for the root of the crate.
    within: &'static str,
    /// Whether code of a layer may name modules that are in no layer. The kernel's root has such modules for programs,
    /// and the kernel uses them, too.
    has_facade: bool,
    /// The floor of each module in the picture. The lowest floor is floor 0.
    floors: BTreeMap<String, usize>,
}

impl Stack {
    /// Reads the picture that follows the text `<folder> is a stack of layers`. A line is a list of modules, then two
    /// spaces or more, then a description.
    fn of_the_picture(folder: &str, of: &'static Crate, within: &'static str, has_facade: bool) -> Self {
        let text = read("ARCHITECTURE.md");
        let (_, section) =
            text.split_once(&format!("`{folder}` is a stack of layers")).expect("a section about layers");
        let (_, picture) = section.split_once("```text\n").expect("a picture in it");
        let (picture, _) = picture.split_once("```").expect("its end");
        let modules = |line: &str| -> Vec<String> {
            let (modules, _) = line.split_once("  ").expect("modules, two spaces, a description");
            modules.split(", ").map(str::to_owned).collect()
        };
        let floors = picture.lines().rev().enumerate();
        let floors = floors.flat_map(|(floor, line)| modules(line).into_iter().map(move |module| (module, floor)));
        Self { of, within, has_facade, floors: floors.collect() }
    }

    fn all() -> [Self; 3] {
        [
            Self::of_the_picture("gmp-sched/src", &WHOLE_SCHEDULER, "", false),
            Self::of_the_picture("gmp-sched/src/library", &WHOLE_SCHEDULER, "library::", false),
            Self::of_the_picture("kernel/src", &KERNEL, "", true),
        ]
    }

    /// Returns the layer to which `path` leads; `None` if the path leads out of the stack.
    fn layer<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(self.within)?.split("::").next()
    }

    /// The floor of the layer to which `path` leads; `None` if it leads to no layer of the picture.
    fn floor(&self, path: &str) -> Option<usize> {
        self.floors.get(self.layer(path)?).copied()
    }

    /// The modules with a file of their own that belong to a layer, and the layer's floor.
    fn modules<'a, T>(&'a self, of_module: &'a BTreeMap<String, T>) -> impl Iterator<Item = (usize, &'a str, &'a T)> {
        of_module.iter().filter_map(|(module, value)| Some((self.floor(module)?, module.as_str(), value)))
    }

    /// Returns the paths in the code of a layer that lead to a higher layer. Also returns those that lead to no layer,
    /// unless [`has_facade`](Self::has_facade) allows them. Each path comes with its module.
    fn paths_that_run_up(&self) -> Vec<(&str, String)> {
        let mut found = Vec::new();
        for (own, module, paths) in self.modules(&self.of.paths) {
            // A module that is not in the picture may re-export items of a higher layer. So a path to it runs up, too,
            // unless such modules are allowed.
            let is_up = |layer: &str| self.floors.get(layer).map_or(!self.has_facade, |floor| *floor > own);
            let up = paths.iter().filter(|path| self.layer(path).is_some_and(is_up));
            found.extend(up.map(|path| (module, path.clone())));
        }
        found
    }

    /// Finds the methods that a layer adds to types of other layers, and returns each call of such a method in a layer
    /// below that one, with its module. The caller depends on the higher layer, although no path in the caller's code
    /// names it.
    fn calls_that_run_up(&self) -> Vec<(&str, String)> {
        let floor = |module: &[String]| self.floor(&module.join("::"));
        let types: BTreeSet<_> = self.of.types_in.iter().map(|(module, types)| (floor(module), types)).collect();
        let functions = self.of.functions.iter();
        let functions: Vec<_> = functions.filter_map(|function| Some((floor(&function.module)?, function))).collect();
        let mut lowest = BTreeMap::new();
        for &(floor, function) in &functions {
            lowest.entry(&function.name).and_modify(|lowest| *lowest = floor.min(*lowest)).or_insert(floor);
        }
        // The code of a call shows the method's name but not its type. If a lower layer has a function of that name, the
        // call may be of that function. So a method is recorded as added by a layer only if no lower layer has a
        // function of its name.
        let mut added = BTreeMap::new();
        for &(floor, function) in functions.iter().filter(|(_, function)| function.of_trait.is_none()) {
            let Some(owner) = &function.owner else { continue };
            // In a macro, the name of the type may be one of its parameters.
            let is_own =
                owner.starts_with('$') || types.iter().any(|(of, types)| *of == Some(floor) && types.contains(owner));
            if !is_own && lowest[&function.name] == floor {
                added.insert(&function.name, (floor, owner));
            }
        }
        let mut found = Vec::new();
        for (own, module, calls) in self.modules(&self.of.calls) {
            let up = calls.iter().filter_map(|call| Some((call, added.get(call)?))).filter(|(_, (of, _))| *of > own);
            found.extend(up.map(|(call, (_, owner))| (module, format!("{owner}::{call}"))));
        }
        found
    }
}

#[test]
fn pictures_show_every_module() {
    for stack in Stack::all() {
        let there: BTreeSet<_> = stack.of.paths.keys().filter_map(|module| stack.layer(module)).collect();
        let shown: BTreeSet<_> = stack.floors.keys().map(String::as_str).collect();
        // The root has no layer. The tests in the source are the highest layer, and are not read.
        let differ: Vec<_> =
            shown.symmetric_difference(&there).filter(|name| !["lib", "tests"].contains(name)).collect();
        assert!(differ.is_empty(), "only in the picture in ARCHITECTURE.md, or only in the source: {differ:?}");
    }
}

#[test]
fn no_path_leads_up_except_the_listed_ones() {
    let stacks = Stack::all();
    let found = stacks.iter().flat_map(|stack| [stack.paths_that_run_up(), stack.calls_that_run_up()].concat());
    let mut found: Vec<_> = found.collect();
    let is_meant = |exception: &(&str, &str, &str), (module, path): &(&str, String)| {
        *module == exception.0 && path.split("::").next() == Some(exception.1)
    };
    let unused: Vec<_> =
        EXCEPTIONS.iter().filter(|exception| !found.iter().any(|it| is_meant(exception, it))).collect();
    found.retain(|it| !EXCEPTIONS.iter().any(|exception| is_meant(exception, it)));
    let found: Vec<_> = found.iter().map(|(module, path)| format!("{module} names {path}")).collect();
    assert!(found.is_empty(), "this runs up:\n{}", found.join("\n"));
    assert!(unused.is_empty(), "exceptions that are no longer needed: {unused:?}");
}

#[test]
fn paths_calls_and_types_of_a_module_are_found() {
    let code = "use crate::a::{self, b::{C, D}, E as F};\n\
                fn i() { crate::g::h::<I>(super::super::j::K, super::l); crate::no!(); $crate::no; x.m::<L>().n().o; }\n\
                pub(crate) mod q { use super::super::r; use super::super::super::s; struct T; }";
    let read = Crate::parse(code, "one::two");
    let set = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(set(&read.paths["one::two"]), "a a::E a::b::C a::b::D g::h j::K one::l one::r s");
    assert_eq!(set(&read.calls["one::two"]), "m n");
    assert_eq!(set(&read.types_in[&["one".to_owned(), "two".to_owned(), "q".to_owned()][..]]), "T");
}
