//! Finds the paths that code names, and the methods that it calls.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenTree};

use crate::source::{inside, is_ident, word};

/// Returns the names of the methods that are called with a dot.
pub(crate) fn calls(words: &[String]) -> impl Iterator<Item = String> {
    let is_call = |three: &&[String]| three[0] == "." && (three[2] == "(" || three[2] == ":");
    words.windows(3).filter(is_call).map(|three| three[1].clone())
}

/// Adds all paths in the module `module` that begin with `crate::` or `super::` to `paths`, from the root of the crate.
pub(crate) fn collect_paths(tokens: &[TokenTree], module: &[String], paths: &mut BTreeSet<String>) {
    for (at, token) in tokens.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).map_or(String::new(), |at| word(&tokens[at]));
        let rest = &tokens[at + 1..];
        match token {
            // The body of an inline module.
            TokenTree::Group(group) if before(2) == "mod" && group.delimiter() == Delimiter::Brace => {
                let inner: Vec<_> = module.iter().cloned().chain([before(1)]).collect();
                collect_paths(&inside(group), &inner, paths);
            }
            TokenTree::Group(group) => collect_paths(&inside(group), module, paths),
            // A path that begins with `$crate` belongs to the code that calls the macro. An exported macro is at the
            // root, whichever module defines it.
            _ if word(token) == "crate" && before(1) != "$" && is_path(rest) && !is_macro(rest) => {
                collect_tree(rest, String::new(), paths);
            }
            // Each further `super` of the path leads one more module up.
            _ if word(token) == "super" && before(1) != ":" && is_path(rest) => {
                let more = rest.chunks(3).take_while(|part| part.len() == 3 && word(&part[2]) == "super").count();
                let above = module.len().saturating_sub(1 + more);
                collect_tree(&rest[3 * more..], module[..above].join("::"), paths);
            }
            _ => {}
        }
    }
}

/// Whether the path goes on with the name of a macro.
fn is_macro(tokens: &[TokenTree]) -> bool {
    tokens.get(3).is_some_and(|next| word(next) == "!")
}

/// Whether a path goes on with these tokens.
fn is_path(tokens: &[TokenTree]) -> bool {
    tokens.len() > 2 && word(&tokens[0]) == ":" && word(&tokens[1]) == ":"
}

/// Adds the paths of a use tree or a single path. `path` is the beginning that has been read already, and `tokens` are
/// the rest.
fn collect_tree(tokens: &[TokenTree], path: String, paths: &mut BTreeSet<String>) {
    match tokens.get(2).filter(|_| is_path(tokens)) {
        Some(TokenTree::Group(group)) => {
            for tree in inside(group).split(|token| word(token) == ",").filter(|tree| !tree.is_empty()) {
                collect_tree(&tree[1..], join(&path, &word(&tree[0])), paths);
            }
        }
        Some(token) if is_ident(token) => collect_tree(&tokens[3..], join(&path, &word(token)), paths),
        _ => _ = paths.insert(path),
    }
}

fn join(path: &str, name: &str) -> String {
    match (path, name) {
        (path, "self") => path.into(),
        ("", name) => name.into(),
        (path, name) => format!("{path}::{name}"),
    }
}
