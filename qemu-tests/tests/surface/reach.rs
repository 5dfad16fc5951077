//! Finds the functions that reach the state of a CPU, an M or a P, directly or through calls.
//!
//! Calls are matched by name. For a method, only its own name is compared. For an associated function, the name of its
//! type is compared as well. For any other function, the module in the call's path is compared as well. If the call has
//! no path, the function must be in the module of the caller, or the caller's module must import its name. Still, a
//! function may be mistaken for another one of the same name. This only leads to false positives. A call through a
//! function pointer or closure is not found.

use std::collections::{BTreeMap, VecDeque};

use crate::source::{Crate, Function, Visibility};

/// A function that contains one of these words reaches the state of a CPU, an M or a P directly.
const STATE: [&str; 12] = [
    "Machine",
    "Processor",
    "Pinned",
    "current_machine",
    "raise_pin",
    "lower_pin",
    "interrupts",
    "without_interrupts",
    "cli",
    "load_here",
    "store_here",
    "add_here",
];
/// Parts of assembly instructions that access per-CPU data or the register that points to it.
const PER_CPU: [&str; 2] = ["gs:[", "GsBase"];

/// A safe function that other crates can call, and how it reaches the state of a CPU, an M or a P.
#[derive(Debug)]
pub(crate) struct Found {
    /// The path of the function.
    pub(crate) path: String,
    /// The calls that lead from the function to one that accesses the state directly.
    pub(crate) chain: String,
}

/// Returns all public safe functions of `own` that reach the state of a CPU, an M or a P, directly or through functions
/// of `own` and `others`.
pub(crate) fn find(own: &Crate, others: &[&Crate]) -> Vec<Found> {
    let crates: Vec<&Crate> = [own].into_iter().chain(others.iter().copied()).collect();
    let functions: Vec<(&Crate, &Function)> =
        crates.iter().flat_map(|each| each.functions.iter().map(move |function| (*each, function))).collect();
    let next = distances(&crates, &functions);
    let mut found: Vec<Found> = functions
        .iter()
        .enumerate()
        .filter(|(index, (of, function))| {
            next[*index].is_some() && core::ptr::eq(*of, own) && is_surface(function, &crates)
        })
        .map(|(index, (_, function))| Found { path: path(function), chain: chain(index, &functions, &next) })
        .collect();
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

/// Returns whether safe code of another crate can call the function.
fn is_surface(function: &Function, crates: &[&Crate]) -> bool {
    // The function's own crate comes first, because another crate may have a type of the same name.
    let is_public = |name: &Option<String>| {
        name.as_ref().and_then(|name| crates.iter().find_map(|each| each.types.get(name))).is_none_or(|public| *public)
    };
    !function.is_unsafe
        && match function.visibility {
            Visibility::Public => true,
            Visibility::Crate => false,
            Visibility::Trait => is_public(&function.owner) && is_public(&function.of_trait),
        }
}

/// Returns the name of a function in the lists. It begins with the function's type. For a function without a type it
/// begins with the innermost module, so that a file can be moved without a change of the lists.
fn path(function: &Function) -> String {
    let owner = match (&function.of_trait, &function.owner) {
        (Some(of_trait), Some(owner)) => Some(format!("<{owner} as {of_trait}>")),
        (_, owner) => owner.clone().or_else(|| function.module.last().cloned()),
    };
    owner.into_iter().chain([function.name.clone()]).collect::<Vec<_>>().join("::")
}

fn touches(function: &Function) -> bool {
    function.owner.iter().chain(&function.words).any(|word| STATE.contains(&word.as_str()))
        || function.words.iter().any(|word| PER_CPU.iter().any(|text| word.contains(text)))
}

/// For each function, returns the index of the next function on a shortest path of calls to the state of a CPU, an M or
/// a P. If a function accesses that state directly, this is its own index. If there is no path, the entry is `None`.
fn distances(crates: &[&Crate], functions: &[(&Crate, &Function)]) -> Vec<Option<usize>> {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, (_, function)) in functions.iter().enumerate() {
        by_name.entry(&function.name).or_default().push(index);
    }
    let mut callers = vec![Vec::new(); functions.len()];
    for (index, (of, function)) in functions.iter().enumerate() {
        for callee in callees(function, of, crates, functions, &by_name) {
            callers[callee].push(index);
        }
    }
    let mut next = vec![None; functions.len()];
    let mut queue = VecDeque::new();
    for (index, (_, function)) in functions.iter().enumerate() {
        if touches(function) {
            next[index] = Some(index);
            queue.push_back(index);
        }
    }
    while let Some(callee) = queue.pop_front() {
        for &caller in &callers[callee] {
            if next[caller].is_none() {
                next[caller] = Some(callee);
                queue.push_back(caller);
            }
        }
    }
    next
}

fn callees(
    function: &Function,
    of: &Crate,
    crates: &[&Crate],
    functions: &[(&Crate, &Function)],
    by_name: &BTreeMap<&str, Vec<usize>>,
) -> Vec<usize> {
    let words = &function.words;
    let text = |index: Option<usize>| index.and_then(|index| words.get(index)).map_or("", String::as_str);
    let mut callees = Vec::new();
    for (at, name) in words.iter().enumerate() {
        let Some(candidates) = by_name.get(name.as_str()) else { continue };
        let before = text(at.checked_sub(1));
        let (after, behind) = (text(Some(at + 1)), text(Some(at + 2)));
        if before == "." {
            let is_call = after == "(" || (after == ":" && behind == ":");
            callees.extend(candidates.iter().copied().filter(|&other| is_call && functions[other].1.has_self));
        } else if before == ":" && text(at.checked_sub(2)) == ":" {
            let qualifier = resolve(text(at.checked_sub(3)), function, crates);
            callees.extend(candidates.iter().copied().filter(|&other| fits(&qualifier, functions[other].1)));
        } else if after != ":" || text(Some(at + 3)) == "<" {
            callees.extend(candidates.iter().copied().filter(|&other| {
                let (crate_of, other) = functions[other];
                let is_near = core::ptr::eq(crate_of, of) && other.module == function.module;
                let is_imported = of.imports.get(&function.module).is_some_and(|names| names.contains(name));
                other.owner.is_none() && (is_near || is_imported)
            }));
        }
    }
    callees
}

/// Returns the names that the qualifier of a call may refer to: the qualifier itself, and the names for which it is an
/// alias. An empty list means any type. The list is empty if the qualifier is a type parameter (a letter or `Plat`), or
/// if it ends with generic arguments.
fn resolve(qualifier: &str, function: &Function, crates: &[&Crate]) -> Vec<String> {
    if qualifier == "Self" {
        return function.owner.iter().chain(&function.of_trait).cloned().collect();
    }
    let is_letter = qualifier.len() == 1 && qualifier.chars().all(char::is_uppercase);
    let is_generic = is_letter || matches!(qualifier, ">" | "Plat");
    if is_generic {
        return Vec::new();
    }
    let aliases = crates.iter().filter_map(|each| each.aliases.get(qualifier)).flatten();
    [qualifier.to_string()].into_iter().chain(aliases.cloned()).collect()
}

fn fits(qualifier: &[String], function: &Function) -> bool {
    let Some(owner) = &function.owner else {
        // The function is in no `impl` or trait. The qualifier fits if it names one of the modules that contain the
        // function: an outer module may re-export the function. `super`, `self` and `crate` always fit.
        return qualifier
            .iter()
            .any(|name| function.module.contains(name) || matches!(name.as_str(), "super" | "self" | "crate"));
    };
    qualifier.is_empty() || [owner].into_iter().chain(&function.of_trait).any(|name| qualifier.contains(name))
}

fn chain(from: usize, functions: &[(&Crate, &Function)], next: &[Option<usize>]) -> String {
    let mut names = vec![path(functions[from].1)];
    let mut at = from;
    while let Some(index) = next[at].filter(|&index| index != at) {
        names.push(path(functions[index].1));
        at = index;
    }
    names.join(" -> ")
}
